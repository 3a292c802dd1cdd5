"""A tool that lives elsewhere (an admin's HTTP service, an MCP server), described by a JSON schema, as one of ours."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from rag_graph.tools.contract import Arguments, Context, Example, Outcome, Tool

__all__ = ["Described", "outside_tool"]

Caller = Callable[[Mapping[str, Any], Context], Awaitable[str]]

_TYPES: Mapping[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list[Any],
    "object": dict[str, Any],
}


@dataclass(frozen=True, slots=True)
class Described:
    """What its owner says of a tool. `parameters` is a JSON schema of an object, as MCP and OpenAI write it."""

    name: str
    group: str
    purpose: str
    use_when: str
    avoid_when: str = "the passages at hand answer the question."
    returns: str = "text."
    parameters: Mapping[str, Any] | None = None
    examples: tuple[Example, ...] = ()
    rare: bool = False
    timeout: float | None = None
    calls: int | None = None


def outside_tool(told: Described, call: Caller) -> Tool:
    """`told` as a tool: arguments are validated here, then `call` gets them as plain values.

    `call` returns text for the model, and raises `ToolFailed` with a sentence where it cannot. Raises ValueError for
    a parameter of a type that JSON schema does not have.
    """

    async def run(arguments: Arguments, context: Context) -> Outcome:
        return Outcome(await call(arguments.model_dump(exclude_none=True), context))

    return Tool(
        name=told.name,
        group=told.group,
        purpose=told.purpose,
        use_when=told.use_when,
        examples=told.examples,
        avoid_when=told.avoid_when,
        returns=told.returns,
        arguments=_model(told.name, told.parameters or {}),
        run=run,
        rare=told.rare,
        timeout=told.timeout,
        calls=told.calls,
    )


def _model(name: str, schema: Mapping[str, Any]) -> type[Arguments]:
    """A pydantic model of the object that `schema` describes; what is not required may be left out."""
    required = set(schema.get("required", ()))
    fields: dict[str, Any] = {}
    for key, told in schema.get("properties", {}).items():
        kind = Literal[tuple(told["enum"])] if told.get("enum") else _TYPES.get(told.get("type", "string"))
        if kind is None:
            raise ValueError(
                f"{name}.{key} has type {told.get('type')!r}; JSON schema knows {', '.join(_TYPES)}"
            )
        about = Field(
            description=told.get("description", ""),
            ge=told.get("minimum"),
            le=told.get("maximum"),
            examples=told.get("examples"),
        )
        fields[key] = (
            Annotated[kind, about] if key in required else Annotated[kind | None, about],
            ... if key in required else told.get("default"),
        )
    made: type[Arguments] = create_model(f"{name}_arguments", __base__=Arguments, **fields)
    return made
