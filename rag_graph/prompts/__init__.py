"""What the models are told: one text file for each prompt and language, filled in strictly. No logic, no defaults."""

import re
from functools import cache
from importlib import resources
from typing import Final

__all__ = ["NAMES", "PromptInvalid", "placeholders", "render"]

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
    return _PLACEHOLDER.sub(lambda match: values[match[1]], _text(name, language))


def placeholders(name: str, language: str) -> frozenset[str]:
    """The values that a prompt needs."""
    return frozenset(_PLACEHOLDER.findall(_text(name, language)))


@cache
def _text(name: str, language: str) -> str:
    if name not in NAMES or language not in ("zh", "en"):
        raise PromptInvalid(f"{name}.{language}: no such prompt; there are {', '.join(NAMES)} in zh and en")
    return resources.files(__name__).joinpath(f"{name}.{language}.txt").read_text(encoding="utf-8").strip()
