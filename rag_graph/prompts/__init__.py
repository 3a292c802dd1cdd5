"""What the models are told: one text file for each prompt and language, filled in strictly. No logic, no defaults."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Final

__all__ = ["NAMES", "PromptInvalid", "placeholders", "read", "render", "replaced"]

NAMES: Final = (
    "assess",
    "condense",
    "decompose",
    "draft",
    "guidance",
    "judge",
    "keywords",
    "other_language",
    "question",
    "redo",
    "rewrite",
    "step_back",
    "summarise",
)

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
SHIPPED: Final[Mapping[str, str]] = MappingProxyType({})
# What a model is asked to say exactly, and is understood by.
ANSWERS: Final = ("NO_ANSWER", "RIGHT")
# A writer of a variant renders with its own texts, through hands that need not know of it (rag_graph/models.py).
_texts: ContextVar[Mapping[str, str]] = ContextVar("prompts", default=SHIPPED)


class PromptInvalid(ValueError):
    """A prompt was asked for that does not exist, or filled in with other values than it has places for."""


def render(name: str, language: str, **values: str) -> str:
    """The prompt `name` ("draft", "rewrite", …) in `language` (zh or en), with every {placeholder} filled in.

    Values are inserted as they are and never looked into again, so text with braces is safe. Raises
    `PromptInvalid` for an unknown prompt or language, a missing value and an unknown one.
    """
    wanted = placeholders(name, language)
    problems = [f"missing {key}" for key in sorted(wanted - values.keys())]
    problems += [f"unknown {key}" for key in sorted(values.keys() - wanted)]
    if problems:
        raise PromptInvalid(f"{name}.{language}: {', '.join(problems)}")
    return _PLACEHOLDER.sub(lambda match: values[match[1]], _worded(name, language))


def placeholders(name: str, language: str) -> frozenset[str]:
    """The values that a prompt needs."""
    return frozenset(_PLACEHOLDER.findall(_text(name, language)))


@contextmanager
def replaced(texts: Mapping[str, str]) -> Iterator[None]:
    """For the length of the block these texts, by name and language ("draft.zh"), stand in for the shipped ones."""
    token = _texts.set(texts)
    try:
        yield
    finally:
        _texts.reset(token)


def read(folder: Path) -> dict[str, str]:
    """The prompts in `folder`, by name and language ("draft.zh"): any of the shipped files, each with exactly the
    placeholders of the one that it replaces; what is as shipped is left out. Raises `PromptInvalid`, naming every
    fault."""
    if not folder.is_dir():
        raise PromptInvalid(f"there is no folder {folder}")
    texts: dict[str, str] = {}
    problems: list[str] = []
    for path in sorted(folder.glob("*.txt")):
        name, _, language = path.stem.partition(".")
        try:
            text, shipped = path.read_text(encoding="utf-8").strip(), _text(name, language)
            problems += _problems(path.name, text, shipped)
            if text != shipped:
                texts[path.stem] = text
        except (PromptInvalid, UnicodeDecodeError, OSError) as error:
            problems.append(f"{path.name}: {error}")
    if not any(folder.glob("*.txt")):
        problems.append(f"no file such as draft.en.txt in {folder}")
    if problems:
        raise PromptInvalid("; ".join(problems))
    return texts


def _problems(file: str, text: str, shipped: str) -> Iterator[str]:
    wanted = frozenset(_PLACEHOLDER.findall(shipped))
    found = frozenset(_PLACEHOLDER.findall(text))
    yield from (f"{file}: missing {{{key}}}" for key in sorted(wanted - found))
    yield from (f"{file}: unknown {{{key}}}" for key in sorted(found - wanted))
    yield from (f"{file}: does not name {word}" for word in ANSWERS if word in shipped and word not in text)
    if not text:
        yield f"{file}: is empty"


def _worded(name: str, language: str) -> str:
    return _texts.get().get(f"{name}.{language}") or _text(name, language)


@cache
def _text(name: str, language: str) -> str:
    if name not in NAMES or language not in ("zh", "en"):
        raise PromptInvalid(f"{name}.{language}: no such prompt; there are {', '.join(NAMES)} in zh and en")
    return resources.files(__name__).joinpath(f"{name}.{language}.txt").read_text(encoding="utf-8").strip()
