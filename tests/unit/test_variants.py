"""Variants of the settings: merged with what they leave alone, and every fault said at once."""

from importlib import resources
from pathlib import Path

import pytest

from bot.app import limits, make_writer, search_settings
from bot.cli import evaluation
from bot.cli.session import CommandFailed
from bot.settings import Settings, SettingsError, load_settings
from bot.variants import differences, digest, lines, texts, varied
from rag_graph import prompts
from rag_graph.contracts import Material, Question
from rag_graph.models import ModelWriter

MODEL = {"SIGNOFF_LLM_BASE_URL": "http://127.0.0.1:1/v1", "SIGNOFF_LLM_MODEL": "usual"}
TERSE = """
[search]
kept = 4

[model.draft]
tokens = 500

[variants.terse.model]
model = "other"
prompts = "terse"

[variants.terse.model.draft]
temperature = 0.1

[variants.terse.search]
candidates = 20
deduplicate = "off"
"""


def shipped(name: str) -> str:
    return resources.files(prompts).joinpath(f"{name}.txt").read_text(encoding="utf-8")


def loaded(folder: Path, text: str) -> Settings:
    (folder / "signoff.toml").write_text(text, encoding="utf-8")
    return load_settings(folder, MODEL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "terse").mkdir()
    (tmp_path / "terse" / "draft.en.txt").write_text(
        shipped("draft.en") + "\nOne sentence only.", encoding="utf-8"
    )
    return tmp_path


def test_a_variant_changes_what_it_names_and_nothing_else(folder: Path) -> None:
    """Its values stand over the settings', also within a table; the rest is the settings'."""
    settings = loaded(folder, TERSE)
    other = varied(settings, "terse")
    assert (limits(other).candidates, limits(other).kept) == (20, 4)
    assert search_settings(other).deduplicate == "off"
    assert (other.model.draft.temperature, other.model.draft.tokens) == (0.1, 500)
    assert other.llm is not None
    assert other.llm.model == "other"
    assert limits(settings).candidates == 10
    assert differences(settings, "terse") == {
        "SIGNOFF_LLM_MODEL": ("usual", "other"),
        "model.prompts": (None, "terse"),
        "model.draft.temperature": (None, 0.1),
        "search.candidates": (10, 20),
        "search.deduplicate": ("cap:4", "off"),
    }


def test_what_is_to_be_written_makes_it_the_settings(folder: Path) -> None:
    """The lines that a promotion prints, in the place of the old ones, give exactly the variant."""
    settings = loaded(folder, TERSE)
    written = lines(settings, "terse")
    assert written[-1] == "SIGNOFF_LLM_MODEL=other"
    own = {**MODEL, "SIGNOFF_LLM_MODEL": "other"}
    body = (
        '[model]\nprompts = "terse"\n[model.draft]\ntokens = 500\ntemperature = 0.1\n'
        '[search]\nkept = 4\ncandidates = 20\ndeduplicate = "off"\n'
    )
    assert set(written[:-1]) <= set(body.splitlines())
    (folder / "signoff.toml").write_text(body, encoding="utf-8")
    now, was = load_settings(folder, own), varied(settings, "terse")
    assert (now.model, now.search, now.llm, texts(now)) == (was.model, was.search, was.llm, texts(was))


async def test_its_prompts_are_what_the_model_reads(folder: Path) -> None:
    """The variant's text in the language it has one in; the settings' writer beside it keeps the shipped one."""
    settings = loaded(folder, TERSE)
    question = Question("q", "cli:a", "How many days?", "en", "cli:a", ("everyone",))
    for chosen, there in ((varied(settings, "terse"), True), (settings, False)):
        writer = make_writer(chosen)
        assert isinstance(writer, ModelWriter)
        made = writer._context(question, (), "", Material(), "draft")
        assert ("One sentence only." in made.system) is there
        await writer.close()
    assert "One sentence only." not in prompts.render("draft", "en", boundary="b")


def test_every_fault_of_every_variant_is_named(tmp_path: Path) -> None:
    """Bounds, unknown values, prompts and names, all in one message."""
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "rewrite.en.txt").write_text("Rewrite {question} for {whom}", encoding="utf-8")
    (tmp_path / "bad" / "poem.en.txt").write_text("Roses", encoding="utf-8")
    (tmp_path / "bad" / "draft.zh.txt").write_text("简短回答。{boundary} {boundary}", encoding="utf-8")
    with pytest.raises(SettingsError) as error:
        loaded(
            tmp_path,
            """
            [variants.wide.search]
            kept = 99
            dictionary = ["x"]
            [variants.odd.model]
            prompts = "bad"
            text = "full"
            [variants.gone.model]
            prompts = "nowhere"
            [variants.same.search]
            kept = 3
            ["variants"."Two words".search]
            kept = 4
            """,
        )
    said = str(error.value)
    for part in (
        "variants.wide.search.kept: ",
        "variants.wide.search.dictionary: no value that a variant may change",
        "variants.odd.model.text: no value",
        "rewrite.en.txt: missing {history}",
        "rewrite.en.txt: unknown {whom}",
        "poem.en: no such prompt",
        "draft.zh.txt: does not name NO_ANSWER",
        "variants.gone.model.prompts: there is no folder",
        "variants.same: changes nothing",
        "variants.Two words: a name is",
    ):
        assert part in said


def test_prompts_that_say_the_same_are_no_difference(tmp_path: Path) -> None:
    """A copied folder that nobody changed would be tried for weeks against itself."""
    (tmp_path / "copy").mkdir()
    for name in ("draft.en", "draft.zh"):
        (tmp_path / "copy" / f"{name}.txt").write_text(shipped(name), encoding="utf-8")
    settings = loaded(tmp_path, '[variants.copy.model]\nprompts = "copy"\n[variants.copy.search]\nkept = 4\n')
    assert set(differences(settings, "copy")) == {"search.kept"}


def test_a_digest_follows_what_it_changes(folder: Path) -> None:
    """Another word in a prompt is another variant; the same file read again is not."""
    settings = loaded(folder, TERSE)
    first = digest(settings, "terse")
    assert digest(loaded(folder, TERSE), "terse") == first
    (folder / "terse" / "draft.en.txt").write_text(shipped("draft.en") + "\nTwo sentences.", encoding="utf-8")
    assert digest(settings, "terse") != first


@pytest.mark.parametrize("steps", ["[20, 5, 100]", "[5, 20]", "[]", "[5, 5, 100]", "[0, 100]"])
def test_steps_must_rise_to_everybody(tmp_path: Path, steps: str) -> None:
    """A plan that never ends, or goes down, is refused at start."""
    with pytest.raises(SettingsError, match=r"canary"):
        loaded(tmp_path, f"[canary]\nsteps = {steps}\n")


def test_an_evaluation_takes_a_variant_by_its_name(folder: Path) -> None:
    """Bare where no file has that name, or with "variant:"; what is neither is said with the names that there are."""
    loaded(folder, TERSE.replace('model = "other"\n', ""))
    for name in ("terse", "variant:terse"):
        assert limits(evaluation._chosen(folder, name)).candidates == 20
    assert limits(evaluation._chosen(folder, ".")).candidates == 10
    with pytest.raises(CommandFailed, match=r"neither a file nor a variant.*terse"):
        evaluation._chosen(folder, "tersely")
