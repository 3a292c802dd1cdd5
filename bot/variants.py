"""Variants of the settings: what `[variants.NAME]` in signoff.toml changes, checked against what it replaces.

[variants.terse.model]
prompts = "prompts-terse"     # a folder beside signoff.toml; its files replace the shipped ones of the same name
[variants.terse.model.draft]
temperature = 0.1
[variants.terse.search]
kept = 4
"""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from rag_graph import prompts

if TYPE_CHECKING:
    from bot.settings import Settings

__all__ = ["VariantInvalid", "differences", "digest", "faults", "lines", "texts", "varied"]

Part = TypeVar("Part", bound=BaseModel)

NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
TAKEN: Final = ("old", "settings")  # what `signoff eval --compare` and people call the other side
# `model` is the one at the endpoint, which the environment names.
MODEL: Final = (
    "model", "window", "fallback", "question_seconds", "prompts", "draft", "rewrite", "assess", "summarise",
)  # fmt: skip
SEARCH: Final = (
    "candidates", "kept", "retry_below", "abstain_below", "iterations", "deduplicate", "rerank_candidates",
    "rerank_seconds",
)  # fmt: skip
ENDPOINT: Final = "SIGNOFF_LLM_MODEL"


class VariantInvalid(ValueError):
    """A variant cannot be used; the message lists everything that is wrong with it."""


def varied(settings: "Settings", name: str) -> "Settings":
    """The settings as that variant has them. Raises `VariantInvalid`, and `KeyError` where there is none."""
    changed, found = _varied(settings, name)
    if found:
        raise VariantInvalid("\n".join(found))
    return changed


def faults(settings: "Settings") -> list[str]:
    """Everything that is wrong with the variants, and with the prompts that the settings name themselves."""
    found = _prompt_faults(settings, "model.prompts")
    for name in settings.variants:
        if not NAME.fullmatch(name) or name in TAKEN:
            found.append(
                f"variants.{name}: a name is small letters, digits, - and _, and neither of: {', '.join(TAKEN)}"
            )
        wrong = _varied(settings, name)[1]
        if not wrong and not differences(settings, name):
            wrong = [
                f"variants.{name}: changes nothing; name at least one value that differs from the settings"
            ]
        found += wrong
    return found


def texts(settings: "Settings") -> Mapping[str, str]:
    """The prompts that replace the shipped ones, by name and language. Raises `prompts.PromptInvalid`."""
    if settings.model.prompts is None:
        return prompts.SHIPPED
    return prompts.read(_folder(settings.config, settings.model.prompts))


def differences(settings: "Settings", name: str) -> dict[str, tuple[Any, Any]]:
    """By dotted key what the settings have, and what the variant has in its place."""
    other = varied(settings, name)
    before, after = _flat(settings), _flat(other)
    after[ENDPOINT] = settings.variants[name].model.get("model", before[ENDPOINT])
    found = {key: (before[key], after[key]) for key in after if after[key] != before[key]}
    if texts(other) == texts(settings):
        found.pop("model.prompts", None)
    return found


def digest(settings: "Settings", name: str) -> str:
    """Twelve hex digits that change with what the variant changes, its prompts' words among it."""
    chosen = settings.variants[name]
    told = dict(texts(varied(settings, name))) if "prompts" in chosen.model else {}
    facts = json.dumps([chosen.model, chosen.search, told], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(facts.encode()).hexdigest()[:12]


def lines(settings: "Settings", name: str) -> list[str]:
    """What to write into signoff.toml and the environment so that the settings are what the variant is."""
    tables: dict[str, list[str]] = {}
    for key, (_, value) in differences(settings, name).items():
        table, _, field = key.rpartition(".")
        tables.setdefault(table, []).append(f"{field} = {json.dumps(value, ensure_ascii=False)}")
    environment = [row.replace(" = ", "=").replace('"', "") for row in tables.pop("", [])]
    return [row for table, rows in tables.items() for row in (f"[{table}]", *rows)] + environment


# --- steps ------------------------------------------------------------------------------------------------------


def _varied(settings: "Settings", name: str) -> tuple["Settings", list[str]]:
    chosen, where = settings.variants[name], f"variants.{name}"
    found = [
        f"{where}.{table}.{key}: no value that a variant may change; those are {', '.join(known)}"
        for table, values, known in (("model", chosen.model, MODEL), ("search", chosen.search, SEARCH))
        for key in values
        if key not in known
    ]
    values = {key: value for key, value in chosen.model.items() if key in MODEL and key != "model"}
    named = chosen.model.get("model")
    if "model" in chosen.model and not (isinstance(named, str) and named):
        found.append(f"{where}.model.model: must be the name of a model at the endpoint")
    changed = settings.model_copy(
        update={
            "model": _merged(settings.model, values, f"{where}.model", found),
            "search": _merged(
                settings.search,
                {key: value for key, value in chosen.search.items() if key in SEARCH},
                f"{where}.search",
                found,
            ),
        }
    )
    if settings.llm is not None and isinstance(named, str):
        changed = changed.model_copy(update={"llm": settings.llm.model_copy(update={"model": named})})
    if changed.model.prompts != settings.model.prompts:
        found += _prompt_faults(changed, f"{where}.model.prompts")
    return changed, found


def _merged(part: Part, changes: Mapping[str, Any], where: str, found: list[str]) -> Part:
    """`part` with `changes` in it, tables within it key by key; what is wrong is added to `found`."""
    values = part.model_dump()
    for key, value in changes.items():
        old = values[key]
        values[key] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
    try:
        return type(part).model_validate(values)
    except ValidationError as error:
        found += [
            f"{'.'.join([where, *map(str, e['loc'])])}: {e['msg']}" for e in error.errors(include_input=False)
        ]
        return part


def _prompt_faults(settings: "Settings", where: str) -> list[str]:
    try:
        texts(settings)
    except prompts.PromptInvalid as error:
        return [f"{where}: {error}"]
    return []


def _folder(config: Path, named: str) -> Path:
    return config.parent / Path(named).expanduser()


def _flat(settings: "Settings") -> dict[str, Any]:
    flat = {ENDPOINT: settings.llm.model if settings.llm else ""}
    for table, part, known in (("model", settings.model, MODEL[1:]), ("search", settings.search, SEARCH)):
        for key in known:
            value = getattr(part, key)
            inside = value.model_dump() if isinstance(value, BaseModel) else None
            flat |= {f"{table}.{key}": value} if inside is None else _prefixed(f"{table}.{key}", inside)
    return flat


def _prefixed(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{name}.{key}": value for key, value in values.items()}
