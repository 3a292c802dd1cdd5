"""People's own questions, as a spreadsheet or an editor writes them: CSV or JSONL, read whole or refused whole. Pure.

A line is a question. Of a CSV the columns may be named in English or Chinese:

    question, 问题             what is asked
    facts, answer, 要点, 答案   what a right answer states: `;` between facts that must all be there, `|` between
                               wordings of one
    document, 文档             title or file of the document that answers, with the same `;` and `|`
    kind, 类型                  single, multi-hop or tool; guessed where empty
    unanswerable, 无答案        yes: right is to say that the documents do not answer it
    as, 提问者                  who asks, as principals beside everyone
    conversation, 会话          questions with the same name follow each other in one thread
    tool, 工具                  the tool that a tool question needs
    id, 编号                    names the question from one run to the next

A line of JSONL has the same keys; where a CSV writes `;` it may have a list, and in that a list of wordings. "answer"
with a list, as the sets of the other evaluations have it, is one fact in several wordings.
"""

import csv
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from rag_graph.tools.router import groups
from store.text import clean, normalise

__all__ = ["KINDS", "Fault", "Groups", "Kind", "OwnQuestion", "Read", "read"]

Kind = Literal["single", "multi-hop", "tool"]
KINDS: Final[tuple[Kind, ...]] = ("single", "multi-hop", "tool")
Groups = tuple[tuple[str, ...], ...]  # every group is needed, one of each is enough


@dataclass(frozen=True, slots=True)
class OwnQuestion:
    """A question with what would be right. `line` is where it begins in the file; `guessed`: nobody said its kind.

    `tools` are those of which one must be called, () where nobody said.
    """

    id: str
    line: int
    text: str
    kind: Kind
    guessed: bool = False
    facts: Groups = ()
    documents: Groups = ()
    unanswerable: bool = False
    principals: tuple[str, ...] = ("everyone",)
    conversation: str = ""
    tools: tuple[str, ...] = ()

    @property
    def judged(self) -> bool:
        """Whether anything says what would be right."""
        return bool(self.facts or self.documents or self.tools or self.unanswerable)


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """What is wrong with a line of the file, counted from 1, and what to do about it."""

    line: int
    what: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.what}"


@dataclass(frozen=True, slots=True)
class Read:
    """What a file holds. Where there are `faults`, nothing of it should be measured. `unused` are columns of which
    nothing was read."""

    questions: tuple[OwnQuestion, ...] = ()
    faults: tuple[Fault, ...] = ()
    unused: tuple[str, ...] = ()


NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "question": ("question", "query", "text", "问题", "提问", "问句"),
    "facts": (
        "facts", "fact", "key facts", "answer", "expected answer", "expected", "expected facts",
        "要点", "关键事实", "答案", "标准答案", "期望答案", "预期答案",
    ),
    "document": (
        "document", "documents", "expected document", "source", "sources", "file", "title",
        "文档", "文件", "来源", "出处", "期望文档", "预期文档",
    ),
    "kind": ("kind", "type", "类型", "种类", "题型"),
    "unanswerable": ("unanswerable", "should refuse", "refuse", "无答案", "应拒答", "拒答", "应当拒答"),
    "as": ("as", "principals", "asker", "who", "提问者", "身份", "提问人"),
    "conversation": ("conversation", "conversation id", "thread", "会话", "会话编号", "对话"),
    "tool": ("tool", "tools", "expected tool", "工具"),
    "id": ("id", "number", "编号", "序号"),
}  # fmt: skip
_KINDS: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(("single", "single fact", "fact", "单一事实", "单事实", "单跳", "单一"), "single"),
    **dict.fromkeys(
        ("multi-hop", "multihop", "multi hop", "multi", "several", "多跳", "多步", "多个事实"), "multi-hop"
    ),
    **dict.fromkeys(("tool", "tools", "工具", "工具调用"), "tool"),
}
# What people write into the column of kinds for a question that the documents do not answer.
_UNSAID: Final = ("", "answerable")
_REFUSED: Final = ("unanswerable", "absent", "refuse", "无答案", "应拒答", "拒答")
_YES: Final = ("yes", "y", "true", "1", "x", "是", "对", "√", "✓", "✔")
_NO: Final = ("", "no", "n", "false", "0", "否", "不", "×")
#: By the groups of tools that the product's own rule offers for a question: the tool that answers it.
_BY_RULE: Final = {"calendar": "today", "catalogue": "list_documents"}


class _Wrong(Exception):
    """The line cannot be used; the message says why."""


def read(data: bytes, *, jsonl: bool, principal: Callable[[str], bool] = lambda _: True) -> Read:
    """The questions in `data`: UTF-8 with or without a mark, UTF-16 with one, or GB18030, as spreadsheets write them.

    `principal` says whether somebody could be called so. Every fault of every line is told, in their order.
    """
    try:
        text = _decoded(data)
    except _Wrong as error:
        return Read(faults=(Fault(1, str(error)),))
    lines, faults, unused = _jsonl(text) if jsonl else _csv(text)
    questions: list[OwnQuestion] = []
    for number, row in lines:
        try:
            questions.append(_question(number, row, principal))
        except _Wrong as error:
            faults.append(Fault(number, str(error)))
    faults += _twice(questions)
    if not questions and not faults:
        faults.append(Fault(1, "there is no question below the header."))
    return Read(tuple(questions), tuple(sorted(faults)), tuple(unused))


# --- the file -------------------------------------------------------------------------------------------------------


def _decoded(data: bytes) -> str:
    if data.startswith(b"PK\x03\x04"):
        raise _Wrong("this is an Excel workbook. Save it as “CSV UTF-8” and name that file.")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", errors="replace")
    for encoding in ("utf-8-sig", "gb18030"):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise _Wrong("the text is neither UTF-8 nor GB18030. Save the file as “CSV UTF-8”.")


Lines = list[tuple[int, dict[str, Any]]]


def _jsonl(text: str) -> tuple[Lines, list[Fault], list[str]]:
    lines: Lines = []
    faults: list[Fault] = []
    unused: dict[str, None] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row: Any = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            faults.append(Fault(number, "is no JSON object. A line is one object with a “question”."))
            continue
        unused |= {str(key): None for key in row if not _column(key)}
        # Sets of the shared format have the accepted wordings twice; the groups say more.
        ordered = sorted(row.items(), key=lambda pair: normalise(pair[0]) != "facts")
        lines.append((number, _named((key, _accepted(key, value)) for key, value in ordered)))
    return lines, faults, list(unused)


def _csv(text: str) -> tuple[Lines, list[Fault], list[str]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
    lines: Lines = []
    faults: list[Fault] = []
    header: list[str] | None = None
    spelt: list[str] = []
    unused: list[str] = []
    for number, cells in _records(reader, faults):
        if not any(cell.strip() for cell in cells):
            continue
        if header is None:
            spelt, header = cells, [_column(cell) for cell in cells]
            unused = [cell for cell, name in zip(cells, header, strict=True) if cell.strip() and not name]
            if "question" not in header:
                known = "question, facts, document, kind, unanswerable, as, conversation, tool, id"
                faults.append(
                    Fault(number, f"no column is called “question” (or 问题). Columns: {known}; all but the first "
                    "may be missing.")
                )  # fmt: skip
                break
            continue
        if len(cells) > len(header):
            faults.append(
                Fault(number, f"has {len(cells)} cells, the header {len(header)}. A cell with a comma in it "
                "stands in double quotes.")
            )  # fmt: skip
            continue
        lines.append((number, _named(zip(spelt, cells, strict=False))))
    return lines, faults, unused


def _named(cells: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """By the names of ours; of two columns that mean the same the one that holds something."""
    row: dict[str, Any] = {}
    for spelt, value in cells:
        name = _column(spelt)
        if name and not row.get(name):
            row[name] = value
    return row


def _accepted(key: str, value: Any) -> Any:
    """The sets of the other evaluations list under "answer" what is accepted: wordings of one fact."""
    several = isinstance(value, list) and all(isinstance(one, str) for one in value)
    return [value] if several and normalise(key) == "answer" else value


def _records(reader: Any, faults: list[Fault]) -> Iterator[tuple[int, list[str]]]:
    """Each record with the line it begins on; a cell may hold line breaks."""
    while True:
        begins = reader.line_num + 1
        try:
            yield begins, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            faults.append(Fault(begins, f"the quotes are not closed, or text stands behind them ({error})."))
            return


def _delimiter(text: str) -> str:
    """Comma, semicolon or tab, whichever makes most of the header known."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    return max(",\t;", key=lambda mark: sum(bool(_column(cell)) for cell in first.split(mark)))


_BY_NAME: Final = {spelt: name for name, spellings in NAMES.items() for spelt in spellings}


def _column(cell: object) -> str:
    """The name that a header's cell stands for; "" for none of ours."""
    plain = re.sub(r"[\s_\-]+", " ", normalise(str(cell))).strip(" \"'：:*")
    return _BY_NAME.get(plain, "")


# --- a line ---------------------------------------------------------------------------------------------------------


def _question(line: int, row: Mapping[str, Any], principal: Callable[[str], bool]) -> OwnQuestion:
    wrong: list[str] = []
    text = clean(str(row.get("question") or "")).strip()
    if not text:
        wrong.append("the question is empty")
    facts = _taken(wrong, lambda: _groups(row.get("facts"), "facts"))
    documents = _taken(wrong, lambda: _groups(row.get("document"), "document"))
    said = _plain(row.get("kind"))
    refused = _yes(row.get("unanswerable"), wrong) or said in _REFUSED
    kind = _KINDS.get(said)
    if kind is None and said not in (*_UNSAID, *_REFUSED):
        wrong.append(f"the kind {said!r} is none of {', '.join(KINDS)} (单一事实, 多跳, 工具)")
    if refused and facts:
        wrong.append("it is called unanswerable and yet has an answer. Empty one of the two")
    who = _names(row.get("as"))
    if nobody := [name for name in who if not principal(name)]:
        wrong.append(f"nobody could be {', '.join(nobody)}: principals are slack:C…, feishu:ou_…, web:lin")
    if wrong:
        raise _Wrong("; ".join(wrong) + ".")
    made = OwnQuestion(
        id=str(row.get("id") or "").strip(),
        line=line,
        text=text,
        kind=kind or _guess(text, documents),
        guessed=kind is None,
        facts=facts,
        documents=documents,
        unanswerable=refused,
        principals=tuple(dict.fromkeys(("everyone", *who))),
        conversation=str(row.get("conversation") or "").strip(),
        tools=_names(row.get("tool")),
    )
    if made.kind == "tool" and not made.tools:
        made = replace(made, tools=tuple(_BY_RULE[name] for name in groups(text) if name in _BY_RULE))
    return made if made.id else replace(made, id=_digest(made))


def _taken(wrong: list[str], reading: Callable[[], Groups]) -> Groups:
    try:
        return reading()
    except _Wrong as error:
        wrong.append(str(error))
        return ()


def _guess(text: str, documents: Groups) -> Kind:
    """By the rule that offers tools: what needs the calendar or the catalogue needs a tool; what asks several things,
    or stands in several documents, takes more than one search."""
    needed = groups(text)
    if set(needed) & set(_BY_RULE):
        return "tool"
    return "multi-hop" if needed or len(documents) > 1 else "single"


def _digest(question: OwnQuestion) -> str:
    """The same question has the same name in the next run, wherever it then stands in the file."""
    facts = [question.text, question.conversation, sorted(question.principals)]
    return hashlib.sha256(json.dumps(facts, ensure_ascii=False).encode()).hexdigest()[:8]


def _twice(questions: Sequence[OwnQuestion]) -> Iterator[Fault]:
    first: dict[str, int] = {}
    for question in questions:
        if question.id in first:
            yield Fault(question.line, f"is the same as line {first[question.id]} (id {question.id}).")
        first.setdefault(question.id, question.line)


def _yes(value: Any, wrong: list[str]) -> bool:
    plain = _plain(value)
    if plain not in (*_YES, *_NO):
        wrong.append(f"unanswerable is {plain!r}: write yes, or nothing")
    return plain in _YES


def _plain(value: Any) -> str:
    return normalise(str("" if value is None else value)).strip()


def _names(value: Any) -> tuple[str, ...]:
    """Names between commas, semicolons or blanks, or in a list."""
    if isinstance(value, list):
        return tuple(str(one).strip() for one in value if str(one).strip())
    return tuple(filter(None, re.split(r"[\s,，;；、]+", str(value or "").strip())))


_EDGES: Final = " \t\r\n.。!！,，"


def _groups(value: Any, name: str) -> Groups:
    """`a; b | c`, or [["a"], ["b", "c"]], or ["a", "b"]: a and (b or c)."""
    if value is None or isinstance(value, str | int | float):
        parts: list[Any] = [
            part.split("|") for part in re.split(r"[;；\n]", str(value or "").replace("｜", "|"))
        ]
    elif isinstance(value, list):
        parts = [part if isinstance(part, list) else str(part).split("|") for part in value]
    else:
        raise _Wrong(f"{name} is neither text nor a list")
    cleaned = (tuple(filter(None, (clean(str(one)).strip(_EDGES) for one in part))) for part in parts)
    return tuple(group for group in cleaned if group)
