"""The settings page: what is in force and where it came from, and never a character of a secret."""

import re
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

import pytest
from pydantic import BaseModel, SecretStr

from bot.settings import VARIABLES, Settings, load_settings
from bot.web.configuration import Section, Setting, rule_view, sections, shown
from bot.web.people import Person
from bot.web.views import Reader
from bot.words import Words
from rag_graph.rules import Rules

TOML = """
[search]
kept = 2

[slack]
follow = "thread"

[review]
reviewers = ["slack:U1", "web:lin"]

[review.queues.legal]
zone = "Asia/Shanghai"

[audiences]
contracts = ["slack:C1"]

[model.draft]
temperature = 0.1
"""


def planted(field: str) -> str:
    return f"PLANTED-{re.sub(r'[^a-z]', '-', field)}-HIDDEN"


def environment() -> dict[str, str]:
    """Everything that the environment can set; secrets planted, addresses with secrets inside."""
    values = {name: planted(field) for name, field in VARIABLES.items() if field not in ("home", "config")}
    for name in values:
        if name.endswith("_BASE_URL"):
            values[name] = f"https://user:{planted('url')}@models.example/v1?key={planted('query')}"
    values |= {
        "SIGNOFF_DATABASE_URL": f"postgresql://signoff:{planted('database_url')}@db.example/signoff",
        "SIGNOFF_DATABASE_DIRECT_URL": f"postgresql://signoff:{planted('direct')}@db.example/signoff",
        "SIGNOFF_LLM_MODEL": "a-model",
        "SIGNOFF_EMBEDDING_MODEL": "e-model",
        "SIGNOFF_RERANK_MODEL": "r-model",
        "SLACK_API_URL": f"https://user:{planted('slack')}@slack.example/api/",
        "FEISHU_APP_ID": "cli_app",
        "FEISHU_DOMAIN": f"https://user:{planted('domain')}@lark.example",
    }
    return values


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "signoff.toml").write_text(TOML, encoding="utf-8")
    return load_settings(tmp_path, environment())


def found(settings: Settings) -> dict[str, Setting]:
    """Dotted name → what the page says."""
    return {
        ".".join(filter(None, (section.name, one.name))): one
        for section in sections(settings)
        for one in section.settings
    }


def secret_fields(model: type[BaseModel], path: str = "") -> Iterator[str]:
    """Every field of the settings that holds a secret."""
    for name, field in model.model_fields.items():
        dotted = f"{path}.{name}".lstrip(".")
        for kind in _kinds(field.annotation):
            if kind is SecretStr:
                yield dotted
            elif isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from secret_fields(kind, dotted)


def _kinds(annotation: Any) -> Iterator[Any]:
    if get_origin(annotation) in (Union, UnionType, dict, tuple):
        for inner in get_args(annotation):
            yield from _kinds(inner)
    else:
        yield annotation


def test_no_character_of_a_secret_is_shown(settings: Settings) -> None:
    """Every secret field there is was planted, and the page says only that it is set."""
    said = repr(list(sections(settings)))
    assert "PLANTED" not in said
    assert "HIDDEN" not in said
    shown_ = found(settings)
    fields = set(secret_fields(Settings))
    assert {"llm.api_key", "slack.bot_token", "feishu.encrypt_key", "database_url", "console_token"} <= fields
    assert {field: shown_[field].kind for field in fields} == dict.fromkeys(fields, "secret")


def test_what_is_not_set_is_said(tmp_path: Path) -> None:
    """Neither a secret nor a table that nobody has set looks as if it were."""
    shown_ = found(load_settings(tmp_path, {}))
    assert (shown_["database_url"].kind, shown_["console_token"].kind) == ("missing", "missing")
    assert (shown_["llm"].kind, shown_["slack"].kind) == ("none", "none")
    without_key = {"SIGNOFF_LLM_BASE_URL": "http://127.0.0.1:1/v1", "SIGNOFF_LLM_MODEL": "m"}
    assert found(load_settings(tmp_path, without_key))["llm.api_key"].kind == "missing"


def test_each_says_where_it_was_set(settings: Settings) -> None:
    """In the environment (and by which variable), in the file, or nowhere."""
    shown_ = found(settings)
    assert (shown_["llm.model"].origin, shown_["llm.model"].variable) == ("environment", "SIGNOFF_LLM_MODEL")
    assert (shown_["search.kept"].text, shown_["search.kept"].origin) == ("2", "file")
    assert (shown_["search.candidates"].text, shown_["search.candidates"].origin) == ("10", "default")
    assert (shown_["slack.follow"].origin, shown_["slack.guests"].origin) == ("file", "default")
    assert shown_["review.queues.legal.zone"].origin == "file"
    assert shown_["model.draft.temperature"].text == "0.1"
    assert shown_["audiences.contracts"].text == "slack:C1"
    assert shown_["review.reviewers"].text == "slack:U1, web:lin"


def test_the_tables_stand_as_in_the_example(settings: Settings) -> None:
    """In the order of signoff.example.toml, so that whoever reads both finds their way."""
    example = (Path(__file__).parents[2] / "signoff.example.toml").read_text(encoding="utf-8")
    wanted = re.findall(r"^\[([a-z]+)\]", example, re.MULTILINE)
    names = [section.name for section in sections(settings)]
    assert [name for name in names if name in wanted] == wanted
    assert isinstance(next(sections(settings)), Section)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (0.6, "0.6"),
        ((), ""),
        (None, ""),
        ({"mon-fri": ("09:00-12:00",)}, "mon-fri = 09:00-12:00"),
        ({"api_key": "hidden", "url": "https://u:p@h/x?k=v#f"}, "api_key = ***, url = https://h/x?…"),
        ("https://[broken", "…"),
        (SecretStr("hidden"), "***"),
    ],
)
def test_values_read_as_they_are_written(value: object, text: str) -> None:
    """And an address without what may be a password or a key."""
    assert shown(value) == text


@pytest.mark.parametrize("language", ["en", "zh"])
def test_rules_are_sentences(language: str) -> None:
    """Every condition and every action of a rule has words, in both languages."""
    words = Words()
    reader = Reader(
        Person("admin", "web:admin", False, True),
        language,
        "",
        lambda key, /, **values: words(language, key, **values),
    )
    every = {
        "collections": ["a", "b"], "labels": ["l"], "channels": ["c"], "topics": ["t"], "askers": ["web:x"],
        "confidence_below": 0.3, "unsupported": True, "numbers": False,
    }  # fmt: skip
    tables = [{"name": "all", "action": "hold", "ramp": True, "queue": "legal", **every}]
    tables += [
        {"name": action, "action": action} for action in ("send", "private", "two_reviewers", "refuse")
    ]
    tables += [{"name": "sample", "action": "sample", "percent": 12.5}]
    views = [rule_view(rule, reader) for rule in Rules.parse(tables).rules]
    assert len(views[0].conditions) == 8
    assert "30" in views[0].conditions[5]
    assert "legal" in views[0].notes[0]
    assert "12.5" in views[-1].action
    assert len({view.action for view in views}) == 6
    assert views[1].conditions == (reader.t("settings.condition.always"),)
