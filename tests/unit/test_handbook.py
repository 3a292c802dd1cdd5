"""The sample handbook and the fifty questions on it are what they claim to be."""

import calendar
import json
import re
import tomllib
from functools import cache
from pathlib import Path

import pdfplumber
import pytest

from bench import handbook_pdf
from bench.question_set import FOLDER, HANDBOOK, Item, answers, covers, load, normalise, states
from store.ingest.pdf import read_pdf

ITEMS = load()
ANSWERABLE = [item for item in ITEMS if item.kind != "absent"]
ABSENT = [item for item in ITEMS if item.kind == "absent"]
DOCUMENTS = sorted(
    str(path.relative_to(HANDBOOK)) for path in HANDBOOK.rglob("*") if path.suffix in {".md", ".pdf"}
)
PDF = "finance/travel-standard.zh.pdf"
MONTHS = calendar.month_name[1:]


def manifest() -> dict[str, dict[str, object]]:
    return tomllib.loads((HANDBOOK / "handbook.toml").read_text(encoding="utf-8"))


def twin(document: str) -> str:
    return document.replace(".zh.", ".en.") if ".zh." in document else document.replace(".en.", ".zh.")


@cache
def text_of(document: str) -> str:
    path = HANDBOOK / document
    if path.suffix != ".pdf":
        return path.read_text(encoding="utf-8")
    return read_pdf(path.read_bytes()).markdown


def figures(text: str) -> set[str]:
    """Every number of a text; English months count as the number that Chinese writes."""
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text)
    for number, month in enumerate(MONTHS, start=1):
        text = re.sub(rf"\b{month}\b", str(number), text)
    return set(re.findall(r"\d+(?:\.\d+)?", text))


def test_every_folder_is_a_declared_collection() -> None:
    """Folders of the handbook and collections of its manifest are the same."""
    assert {document.split("/")[0] for document in DOCUMENTS} == set(manifest()["collections"])


def test_documents_exist_in_both_languages_or_are_declared_single() -> None:
    """A document without a twin is listed as single, and nothing else is."""
    alone = {document for document in DOCUMENTS if twin(document) not in DOCUMENTS}
    assert alone == set(manifest()["single"]["documents"])  # type: ignore[call-overload]


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if ".zh." in d and twin(d) in DOCUMENTS])
def test_twins_state_the_same_figures(document: str) -> None:
    """Every number of the Chinese document stands in the English one, and the other way round."""
    assert figures(text_of(document)) == figures(text_of(twin(document)))


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if ".zh." in d and twin(d) in DOCUMENTS])
def test_twins_have_the_same_outline(document: str) -> None:
    """Headings, tables and fences of twins come in the same order at the same levels."""
    shape = re.compile(r"^(#+ |\|-|```|- |\d+\. )", re.MULTILINE)
    assert [re.sub(r"\d+", "1", mark) for mark in shape.findall(text_of(document))] == [
        re.sub(r"\d+", "1", mark) for mark in shape.findall(text_of(twin(document)))
    ]


def test_the_pdf_is_what_its_script_builds(tmp_path: Path) -> None:
    """Building the PDF again gives the committed bytes."""
    handbook_pdf.build(tmp_path / "again.pdf")
    assert (tmp_path / "again.pdf").read_bytes() == (HANDBOOK / PDF).read_bytes()


def test_the_pdf_has_a_table_that_crosses_a_page() -> None:
    """The city table begins on page 1 and goes on, header repeated, on page 2; each page has head and number."""
    with pdfplumber.open(HANDBOOK / PDF) as document:
        pages = [(page.extract_text(), page.extract_tables()) for page in document.pages]
    first, second = pages[0][1][-1], pages[1][1][0]
    assert first[0] == second[0]
    assert [row[0] for row in first[1:] + second[1:]] == [city[0] for city in handbook_pdf.CITIES]
    for number, (text, _) in enumerate(pages, start=1):
        assert text.startswith("衡麓科技财务部")
        assert text.endswith(f"第 {number} 页 共 {len(pages)} 页")


def test_the_table_that_crosses_a_page_is_read_as_one() -> None:
    """Converted, the city table has one header and all its rows, and no running head stands in between."""
    text = text_of(PDF)
    rows = re.findall(r"^\| (?:<!-- page 2 -->)?(\S+) \| [ABC] \|", text, re.MULTILINE)
    assert rows == [city[0] for city in handbook_pdf.CITIES]
    assert text.count("| 城市 | 类别 |") == 1
    assert "衡麓科技财务部" not in text
    assert "共 3 页" not in text


def test_city_limits_agree_with_the_expense_policy() -> None:
    """The PDF's limits and allowances for each class are those of the expense policy's table."""
    policy = normalise(text_of("finance/expenses.zh.md"))
    for kind, (staff, manager, director, allowance) in handbook_pdf.LIMITS.items():
        assert re.search(rf"{kind.lower()}类\([^)]*\) ?{staff} {manager} {director}", policy)
        assert re.search(rf"{kind.lower()}类(城市每天)?{allowance}元", policy)


def test_the_set_has_fifty_questions_of_three_kinds() -> None:
    """Twenty single, fifteen several, fifteen absent; about half of them Chinese; ids unique."""
    kinds = [item.kind for item in ITEMS]
    assert (kinds.count("single"), kinds.count("several"), kinds.count("absent")) == (20, 15, 15)
    assert 23 <= sum(item.language == "zh" for item in ITEMS) <= 27
    assert len({item.id for item in ITEMS}) == 50


def test_qrels_list_exactly_the_sources_of_the_questions() -> None:
    """qrels.tsv and the sources field say the same, and every path is a document of the handbook."""
    rows = [line.split("\t") for line in (FOLDER / "qrels.tsv").read_text(encoding="utf-8").splitlines()]
    assert all(grade == "1" for _, _, grade in rows)
    assert {(query, path) for query, path, _ in rows} == {
        (item.id, path) for item in ITEMS for path in item.relevant
    }
    assert {path for _, path, _ in rows} <= set(DOCUMENTS)


def test_the_flat_answers_are_the_facts() -> None:
    """`answer`, for readers that know only the shared shape, lists the wordings of `facts`."""
    for line in (FOLDER / "queries.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        assert row["answer"] == [wording for group in row.get("facts", []) for wording in group]


@pytest.mark.parametrize("item", ANSWERABLE, ids=lambda item: item.id)
def test_every_wording_stands_in_a_source(item: Item) -> None:
    """Each accepted wording occurs in one of the question's documents as converted."""
    for wording in (wording for group in item.facts for wording in group):
        assert any(states(text_of(source), wording) for source in item.relevant), wording


@pytest.mark.parametrize("item", ANSWERABLE, ids=lambda item: item.id)
def test_the_sources_together_answer_and_none_is_idle(item: Item) -> None:
    """All sources together state every fact, and each of them states at least one."""
    assert answers("\n".join(text_of(source) for source in item.relevant), item)
    assert covers(item.relevant, item)
    for source in item.relevant:
        assert any(states(text_of(source), wording) for group in item.facts for wording in group), source


@pytest.mark.parametrize("item", ABSENT, ids=lambda item: item.id)
def test_what_is_absent_occurs_nowhere(item: Item) -> None:
    """The wording that an absent question turns on is in no document."""
    assert item.missing
    assert not any(states(text_of(document), item.missing) for document in DOCUMENTS)


@pytest.mark.parametrize("item", [item for item in ITEMS if item.history], ids=lambda item: item.id)
def test_a_follow_up_does_not_carry_its_answer_in_the_history(item: Item) -> None:
    """What was said before does not state all that is asked now."""
    assert not answers("\n".join(text for _, text in item.history), item)


@pytest.mark.parametrize(
    ("text", "wording", "expected"),
    [
        ("| 满 3 年不满 10 年 | 12 天 |", "满3年不满10年 12天", True),
        ("up to CNY 2,000 a year", "cny 2000", True),
        ("it is 115 days", "15 days", False),
        ("version 15.2", "15", False),
        ("费用为５００元。[1]", "500 元", True),
        ("give 3 days’ notice", "3 days' notice", True),
        ("7–8 月", "7-8月", True),
    ],
)
def test_wordings_are_compared_by_content(text: str, wording: str, expected: bool) -> None:
    """Width, separators, marks and spaces do not matter; a figure inside a longer one does not count."""
    assert states(text, wording) is expected
