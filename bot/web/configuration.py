"""The console's page of what is set: in force now, where it came from, and of a secret only whether there is one.

It walks the settings' own types, so that a new table stands on it without being named here.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from pydantic import BaseModel, SecretStr
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bot.settings import VARIABLES, Settings
from bot.web.door import Site, needs
from bot.web.views import Reader
from rag_graph.rules import Rule

# As in signoff.example.toml; tables that are not named come after these.
ORDER = (
    "workspace", "search", "ingest", "audiences", "profiles", "model", "review", "limits", "retention", "operations",
)  # fmt: skip
RULES = "review.rules"
SECRET = re.compile(r"(^|_)(key|token|secret|password)$")
VARIABLE_OF: Mapping[str, str] = {field: variable for variable, field in VARIABLES.items()}

Origin = Literal["environment", "file", "default", ""]


@dataclass(frozen=True, slots=True)
class Setting:
    """One line. `kind` is value, none (nothing is set), secret (there is one) or missing (a secret that is not set);
    `text` is empty for all but the first. `variable` is what sets it where that is the environment's."""

    name: str
    kind: Literal["value", "none", "secret", "missing"]
    text: str
    origin: Origin
    variable: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """One table of signoff.toml; `name` is empty for what stands in none."""

    name: str
    settings: tuple[Setting, ...]


@dataclass(frozen=True, slots=True)
class RuleView:
    name: str
    action: str
    conditions: tuple[str, ...]
    notes: tuple[str, ...]


def routes() -> list[Route]:
    return [Route("/console/settings", needs("admin", page), methods=["GET"])]


async def page(request: Request, site: Site) -> Response:
    settings, reader = site.app.settings, site.pages.reader(request)
    return site.pages.page(
        request,
        "settings.html",
        room="settings",
        sections=list(sections(settings)),
        rules=[rule_view(rule, reader) for rule in settings.rules.rules],
        default=reader.t(f"settings.action.{settings.rules.default}"),
    )


# --- what is set -----------------------------------------------------------------------------------------------


def sections(settings: Settings) -> Iterator[Section]:
    """Every table in force, in the order of the example file."""
    fields = type(settings).model_fields
    names = [*ORDER, *(name for name in fields if name not in ORDER)]
    loose = [name for name in names if not _is_table(getattr(settings, name), fields[name].annotation)]
    yield Section("", tuple(_setting(settings, settings, "", name) for name in loose))
    for name in names:
        value = getattr(settings, name)
        if name in loose:
            continue
        if isinstance(value, BaseModel):
            yield from _tables(settings, value, name)
        elif value is None:
            missing = Setting("", "none", "", "default")
            yield Section(name, (missing,))
        else:
            yield from _dictionary(settings, value, name, settings)


def _is_table(value: Any, annotation: Any) -> bool:
    if isinstance(value, BaseModel | dict):
        return True
    return value is None and any(
        isinstance(kind, type) and issubclass(kind, BaseModel) for kind in get_args(annotation)
    )


def _tables(settings: Settings, model: BaseModel, path: str) -> Iterator[Section]:
    """A table and, after it, those inside it."""
    inner: list[tuple[str, Any]] = []
    rows: list[Setting] = []
    for name in type(model).model_fields:
        value = getattr(model, name)
        if f"{path}.{name}" == RULES:
            continue
        if isinstance(value, BaseModel) or (isinstance(value, dict) and _has_tables(value)):
            inner.append((name, value))
        else:
            rows.append(_setting(settings, model, path, name))
    if rows:
        yield Section(path, tuple(rows))
    for name, value in inner:
        if isinstance(value, BaseModel):
            yield from _tables(settings, value, f"{path}.{name}")
        else:
            yield from _dictionary(settings, value, f"{path}.{name}", model)


def _has_tables(value: Mapping[str, Any]) -> bool:
    return any(isinstance(one, BaseModel) for one in value.values())


def _dictionary(
    settings: Settings, value: Mapping[str, Any], path: str, owner: BaseModel
) -> Iterator[Section]:
    """A table whose keys are the operator's own."""
    if _has_tables(value):
        for key, one in value.items():
            yield from _tables(settings, one, f"{path}.{key}")
        return
    origin = _origin(settings, owner, *path.rpartition(".")[::2])
    rows = tuple(Setting(key, "value", shown(one), origin) for key, one in value.items())
    yield Section(path, rows or (Setting("", "none", "", origin),))


def _setting(settings: Settings, model: BaseModel, path: str, name: str) -> Setting:
    value, field = getattr(model, name), type(model).model_fields[name]
    origin = _origin(settings, model, path, name)
    variable = VARIABLE_OF.get(_dotted(path, name), "") if origin == "environment" else ""
    if _is_secret(name, value, field.annotation):
        given = value.get_secret_value() if isinstance(value, SecretStr) else value
        # An endpoint without a key of its own is sent the word "none".
        there = bool(given) and origin != "default"
        return Setting(name, "secret" if there else "missing", "", origin, variable)
    text = shown(value)
    return Setting(name, "value" if text else "none", text, origin, variable)


def _is_secret(name: str, value: Any, annotation: Any) -> bool:
    kinds = (annotation, *get_args(annotation))
    return SecretStr in kinds or isinstance(value, SecretStr) or (str in kinds and bool(SECRET.search(name)))


def _origin(settings: Settings, model: BaseModel, path: str, name: str) -> Origin:
    if _dotted(path, name) in settings.environment:
        return "environment"
    if model is settings and name in ("home", "config"):
        return ""  # an option of the command, or where they are without one
    return "file" if name in model.model_fields_set else "default"


def _dotted(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def shown(value: Any) -> str:
    """A value as a line; "" for none at all. Addresses lose what may be a password or a key."""
    if value is None or isinstance(value, bool):
        return {None: "", True: "true", False: "false"}[value]
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, str | Path):
        return _address(str(value))
    if isinstance(value, SecretStr):
        return "***"
    return _several(value)


def _several(value: Any) -> str:
    if isinstance(value, BaseModel):
        value = {name: getattr(value, name) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {_one(str(key), one)}" for key, one in value.items())
    if isinstance(value, Sequence | frozenset):
        return ", ".join(shown(one) for one in value)
    return str(value)


def _one(key: str, value: Any) -> str:
    return "***" if isinstance(value, str) and SECRET.search(key) else shown(value)


def _address(text: str) -> str:
    if "://" not in text:
        return text
    try:
        parts = urlsplit(text)
    except ValueError:
        return "…"
    # Nothing of what stands before "@" or after "?" and "#" is anybody else's business.
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}{'?…' if parts.query or parts.fragment else ''}"


# --- the rules ---------------------------------------------------------------------------------------------------

LISTS = ("collections", "labels", "channels", "topics", "askers")
FLAGS = ("unsupported", "numbers")


def rule_view(rule: Rule, reader: Reader) -> RuleView:
    """A rule as a person says it: what has to hold, all of it, and what happens then."""
    or_ = reader.t("settings.or")
    conditions = [
        reader.t(f"settings.condition.{name}", values=or_.join(getattr(rule, name)))
        for name in LISTS
        if getattr(rule, name)
    ]
    if rule.confidence_below is not None:
        percent = f"{rule.confidence_below * 100:g}"
        conditions.append(reader.t("settings.condition.confidence_below", percent=percent))
    for name in FLAGS:
        wanted = getattr(rule, name)
        if wanted is not None:
            conditions.append(reader.t(f"settings.condition.{name if wanted else 'no_' + name}"))
    notes = [reader.t("settings.queue", queue=rule.queue)] * bool(rule.queue)
    notes += [reader.t("settings.ramp")] * rule.ramp
    return RuleView(
        rule.name,
        reader.t(f"settings.action.{rule.action}", percent=f"{rule.percent:g}"),
        tuple(conditions) or (reader.t("settings.condition.always"),),
        tuple(notes),
    )
