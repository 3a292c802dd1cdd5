"""What a tool is. One description serves the model that chooses it and the person who maintains it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict

from rag_graph.contracts import Deps, Question
from store.passages import Passage

__all__ = ["Arguments", "Context", "Example", "Outcome", "Tool", "ToolFailed", "ToolRun"]


class ToolFailed(Exception):
    """A tool could not do it; the message is read by the model, so it says what was wrong and what else to try."""


class Arguments(BaseModel):
    """Base of every tool's arguments: unknown names are refused, so that a misspelt one is noticed."""

    model_config = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True)
class Context:
    """What a tool may reach: the question, whose principals bound all it reads, and the dependencies."""

    question: Question
    deps: Deps


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a tool found: `text` for the model to read, the passages that a draft may cite, and how sure a search
    among them was."""

    text: str
    passages: tuple[Passage, ...] = ()
    confidence: float = 0.0


@dataclass(frozen=True, slots=True)
class Example:
    """A question, and the arguments that answer it; or, for `avoid_when`, what to do instead."""

    question: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool's contract. `arguments` carries each parameter's type, meaning, range and example.

    `group` is the word by which a router offers some tools and not others: choice gets worse with every tool
    more (about 95, 88 and 75 % right with 5, 10 and 20; MISSION B9). A `rare` one stands behind the tool `more_tools`
    where there are more than ten. `timeout` (seconds) and `calls` (of this tool for one question) are the registry's
    where None.
    """

    name: str
    group: str
    purpose: str
    use_when: str
    examples: tuple[Example, ...]
    avoid_when: str
    returns: str
    arguments: type[Arguments]
    run: Callable[[Any, Context], Awaitable[Outcome]]
    rare: bool = False
    timeout: float | None = None
    calls: int | None = None


@dataclass(frozen=True, slots=True)
class ToolRun:
    """One executed call. `error` is "" or one of unknown, invalid, timeout, unavailable, budget; `text` then
    says what was wrong and how to mend it, and goes back to the model like any other result."""

    call_id: str
    name: str
    arguments: Mapping[str, Any] | str
    text: str
    passages: tuple[Passage, ...] = ()
    confidence: float = 0.0
    error: str = ""
    milliseconds: float = 0.0
