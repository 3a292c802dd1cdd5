"""The tools a model may call: their schemas, and running a call so that nothing in it breaks the flow."""

import asyncio
import json
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any

import structlog
from pydantic import BaseModel, Field, ValidationError

from rag_graph.contracts import ToolCall
from rag_graph.deadline import left
from rag_graph.tools.contract import Arguments, Context, Outcome, Tool, ToolFailed, ToolRun
from store.errors import StoreError
from store.text import estimate_tokens, sentences

__all__ = ["MORE_TOOLS", "MOST", "Registry", "description", "schema"]

log = structlog.get_logger(__name__)

MOST = 10  # tools that a model is offered at once
MORE_TOOLS = "more_tools"

# MISSION B10 gives tool results 800 tokens of an 8,000 token window.
RESULT_TOKENS = 800
TIMEOUT_SECONDS = 10.0
CALLS_PER_QUESTION = 6


class Registry:
    """Looks tools up by name and runs them within a time-out and a budget."""

    def __init__(
        self,
        tools: Iterable[Tool],
        *,
        timeout: float = TIMEOUT_SECONDS,
        result_tokens: int = RESULT_TOKENS,
        calls: int = CALLS_PER_QUESTION,
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._timeout = timeout
        self._result_tokens = result_tokens
        self._calls = calls

    def __bool__(self) -> bool:
        return bool(self._tools)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    @property
    def tools(self) -> tuple[Tool, ...]:
        return tuple(self._tools.values())

    def schemas(self) -> list[dict[str, Any]]:
        """The tools as OpenAI's `tools` parameter; of more than ten the rare ones as one, by its `action`."""
        merged = [tool for tool in self.tools if tool.rare] if len(self._tools) > MOST else []
        shown = [schema(tool) for tool in self.tools if tool not in merged]
        return [*shown, _merged(merged)] if merged else shown

    def offering(self, groups: Collection[str]) -> "Registry":
        """This registry with the tools of `groups` alone."""
        return Registry(
            [tool for tool in self._tools.values() if tool.group in groups],
            timeout=self._timeout,
            result_tokens=self._result_tokens,
            calls=self._calls,
        )

    async def run(self, call: ToolCall, context: Context, *, already: int = 0, of_this: int = 0) -> ToolRun:
        """Execute `call`, the (`already` + 1)th of its question and the (`of_this` + 1)th of its tool. A bad call is a
        result, never an error."""
        started = time.perf_counter()
        if call.name == MORE_TOOLS:
            call = _unwrapped(call)
        outcome, error = await self._attempt(call, context, already, of_this)
        return ToolRun(
            call.id,
            call.name,
            call.arguments,
            _within(outcome.text, self._result_tokens),
            outcome.passages,
            outcome.confidence,
            error,
            (time.perf_counter() - started) * 1_000,
        )

    async def _attempt(
        self, call: ToolCall, context: Context, already: int, of_this: int
    ) -> tuple[Outcome, str]:
        tool = self._tools.get(call.name)
        if tool is None:
            return Outcome(f"There is no tool {call.name!r}. Available: {', '.join(self._tools)}."), "unknown"
        if already >= self._calls:
            return Outcome(f"All {self._calls} tool calls are spent. Answer from what was found."), "budget"
        if tool.calls is not None and of_this >= tool.calls:
            said = f"{tool.name} may be called {tool.calls} times for a question. Answer from what was found."
            return Outcome(said), "budget"
        try:
            arguments = tool.arguments.model_validate(call.arguments)
        except ValidationError as error:
            return Outcome(_correction(tool, error)), "invalid"
        return await _executed(tool, arguments, context, min(tool.timeout or self._timeout, left()))


async def _executed(
    tool: Tool, arguments: Arguments, context: Context, seconds: float
) -> tuple[Outcome, str]:
    try:
        return await asyncio.wait_for(tool.run(arguments, context), seconds), ""
    except TimeoutError:
        return Outcome(f"{tool.name} took longer than {seconds:.3g} s. Ask for less."), "timeout"
    except ToolFailed as error:
        return Outcome(f"{tool.name} failed: {error}"), "failed"
    except StoreError:
        pass
    except Exception as error:  # noqa: BLE001 - a fault in somebody's tool must not cost the answer; it is logged
        log.warning("tool.broken", tool=tool.name, error=type(error).__name__)
    return Outcome(f"{tool.name} is not available now. Answer from what was found."), "unavailable"


class MergedArguments(Arguments):
    action: Annotated[str, Field(description="Which of the tools listed above.")]
    arguments: Annotated[
        dict[str, Any], Field(description="That tool's own parameters.", default_factory=dict)
    ]


def _merged(tools: Collection[Tool]) -> dict[str, Any]:
    """Several tools as one: each with a line of its own, its parameters by name."""
    lines = [
        f"- {tool.name}({', '.join(tool.arguments.model_fields)}): {tool.purpose} Use when: {tool.use_when}"
        for tool in tools
    ]
    parameters = _parameters(MergedArguments)
    parameters["properties"]["action"]["enum"] = [tool.name for tool in tools]
    about = "Tools that are seldom needed, chosen by action:\n" + "\n".join(lines)
    return {
        "type": "function",
        "function": {"name": MORE_TOOLS, "description": about, "parameters": parameters},
    }


def _unwrapped(call: ToolCall) -> ToolCall:
    """The call that stands behind `more_tools`; one that names none stays, and is answered as unknown."""
    try:
        meant = MergedArguments.model_validate(call.arguments)
    except ValidationError:
        return call
    return replace(call, name=meant.action, arguments=meant.arguments)


def schema(tool: Tool) -> dict[str, Any]:
    """`tool` in the form of OpenAI's `tools` parameter."""
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": description(tool),
            "parameters": _parameters(tool.arguments),
        },
    }


def description(tool: Tool) -> str:
    """What it is, when to use it with examples, when not, and what comes back (MISSION B7)."""
    examples = "\n".join(
        f'- "{example.question}" → {json.dumps(dict(example.arguments), ensure_ascii=False)}'
        for example in tool.examples
    )
    return (
        f"{tool.purpose}\nUse when: {tool.use_when}\n{examples}\n"
        f"Do not use when: {tool.avoid_when}\nReturns: {tool.returns}"
    )


def _parameters(arguments: type[BaseModel]) -> dict[str, Any]:
    full = arguments.model_json_schema()
    return {
        "type": "object",
        "properties": {
            name: {key: value for key, value in field.items() if key != "title"}
            for name, field in full.get("properties", {}).items()
        },
        "required": full.get("required", []),
        "additionalProperties": False,
    }


def _correction(tool: Tool, error: ValidationError) -> str:
    """What is wrong with each argument, and a call that would be right."""
    faults = "; ".join(_fault(fault) for fault in error.errors(include_url=False))
    example = json.dumps(dict(tool.examples[0].arguments), ensure_ascii=False) if tool.examples else "{}"
    allowed = ", ".join(tool.arguments.model_fields) or "none"
    return (
        f"{tool.name} was not run: {faults}. Parameters: {allowed}. A valid call: {example}. Call it again."
    )


def _fault(fault: Mapping[str, Any]) -> str:
    name = ".".join(str(part) for part in fault["loc"]) or "arguments"
    given = json.dumps(fault["input"], ensure_ascii=False, default=str)
    return f"{name}: {fault['msg'].lower()}, given {given[:80]}"


def _within(text: str, tokens: int) -> str:
    """`text` cut at a sentence to about `tokens`, saying that it was cut."""
    if estimate_tokens(text) <= tokens:
        return text
    kept: list[str] = []
    used = 0
    for sentence in sentences(text):
        used += estimate_tokens(sentence)
        if used > tokens:
            break
        kept.append(sentence)
    return "\n".join([*kept, "(cut: the result was longer)"])
