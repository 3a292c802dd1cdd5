"""Review rules as an operator writes them in signoff.toml, read and checked. Pure.

    [[review.rules]]
    name = "contracts"
    collections = ["contracts"]
    action = "hold"

What they decide is in `rag_graph/policy.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

__all__ = ["DEFAULT", "Action", "Rule", "Rules", "RulesInvalid"]

Action = Literal["send", "hold", "sample", "private", "two_reviewers", "refuse"]
DEFAULT = "default"  # what a run calls its rule where none matched


class RulesInvalid(ValueError):
    """The review rules in signoff.toml cannot be read. Mend the fields named here and start again."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. An empty or None condition is no condition.

    `topics` are words of the question (of the searched one too, so that a follow-up is recognised); `askers` and
    `channels` are principals and channel names; `confidence_below` is in [0, 1]; `percent` in (0, 100] belongs
    to "sample". `ramp` belongs to "hold": the trust ramp may loosen it (rag_graph/ramp.py). `queue` names the
    [review.queues] table whose hours and limits of time apply to what the rule holds.
    """

    name: str
    action: Action
    collections: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    askers: tuple[str, ...] = ()
    confidence_below: float | None = None
    unsupported: bool | None = None
    numbers: bool | None = None
    percent: float = 100.0
    ramp: bool = False
    queue: str = ""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules in order, and what happens where none matches."""

    rules: tuple[Rule, ...] = ()
    default: Action = "send"

    def named(self, name: str) -> Rule | None:
        """The rule of that name."""
        return next((rule for rule in self.rules if rule.name == name), None)

    @classmethod
    def parse(cls, tables: Sequence[Mapping[str, Any]], default: str = "send") -> "Rules":
        """Rules from signoff.toml's tables. Raises `RulesInvalid` naming every wrong rule and field at once."""
        problems: list[str] = []
        rules = [_parse(number, table, problems) for number, table in enumerate(tables, 1)]
        names = [rule.name for rule in rules if rule]
        problems += [
            f'rule "{name}": the name is taken' for name in dict.fromkeys(names) if names.count(name) > 1
        ]
        if default not in get_args(Action) or default == "sample":
            problems.append(f"default: {default!r} is not one of send, hold, private, two_reviewers, refuse")
        if problems:
            raise RulesInvalid(problems)
        return cls(tuple(rule for rule in rules if rule), default)  # type: ignore[arg-type]


# --- reading ----------------------------------------------------------------------------------------------------

_LISTS = ("collections", "labels", "channels", "topics", "askers")
_FLAGS = ("unsupported", "numbers", "ramp")


def _parse(number: int, table: Mapping[str, Any], problems: list[str]) -> Rule | None:
    name = table.get("name")
    where = f'rule "{name}"' if isinstance(name, str) and name.strip() else f"rule {number}"
    found = [f"{where}: {problem}" for problem in _problems(table)]
    problems += found
    if found:
        return None
    values: dict[str, Any] = {key: tuple(value) if key in _LISTS else value for key, value in table.items()}
    return Rule(**values)


def _problems(table: Mapping[str, Any]) -> list[str]:
    known = {field.name for field in fields(Rule)}
    problems = [
        f'unknown field "{key}"; known are {", ".join(sorted(known))}' for key in table if key not in known
    ]
    if not isinstance(table.get("name"), str) or not table["name"].strip():
        problems.append('"name" must be a text that is not empty')
    elif table["name"] == DEFAULT:
        problems.append(f'"name" cannot be "{DEFAULT}": so runs call it when no rule matched')
    if table.get("action") not in get_args(Action):
        problems.append(f'"action" must be one of {", ".join(get_args(Action))}, not {table.get("action")!r}')
    for key in _LISTS:
        if key in table and not _texts(table[key]):
            problems.append(f'"{key}" must be a list of texts that is not empty, not {table[key]!r}')
    problems += _more_problems(table)
    return problems + _percent_problems(table)


def _more_problems(table: Mapping[str, Any]) -> list[str]:
    problems = [
        f'"{key}" must be true or false, not {table[key]!r}'
        for key in _FLAGS
        if key in table and not isinstance(table[key], bool)
    ]
    if "confidence_below" in table and not _number(table["confidence_below"], 0, 1):
        problems.append(
            f'"confidence_below" must be a number between 0 and 1, not {table["confidence_below"]!r}'
        )
    if table.get("ramp") is True and table.get("action") != "hold":
        problems.append('"ramp" belongs to action = "hold"')
    if "queue" in table and (not isinstance(table["queue"], str) or not table["queue"].strip()):
        problems.append(f'"queue" must name a table of [review.queues], not {table["queue"]!r}')
    return problems


def _percent_problems(table: Mapping[str, Any]) -> list[str]:
    if "percent" not in table:
        return ['"percent" is missing: how many of 100 to sample'] if table.get("action") == "sample" else []
    if table.get("action") != "sample":
        return ['"percent" belongs to action = "sample"']
    good = _number(table["percent"], 0, 100) and table["percent"] > 0
    return [] if good else [f'"percent" must be a number above 0 and at most 100, not {table["percent"]!r}']


def _texts(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(v, str) and v.strip() for v in value)
    )


def _number(value: Any, low: float, high: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
