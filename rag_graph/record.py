"""What a model was told, kept for whoever asks why it said what it did, as far as the text setting allows; and what it
cost. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

__all__ = ["SEARCH", "Asked", "Price", "Prompts", "Text", "cost", "kept", "searches"]

Text = Literal["full", "redacted", "none"]

_FENCED = re.compile(r"(\[\[(\w+) (?!end )[^\]\n]*\]\]\n)(.*?)(\n\[\[\2 end[^\]\n]*\]\])", re.DOTALL)
SEARCH: Final = (
    "search"  # the role of the row that says how the question was put, where it was put in several ways
)
MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Asked:
    """One call of a model: `estimated` tokens by our own estimate, before any correction, and as its endpoint `counted`
    them (0 where it does not). `question` is the asker's text, which a redacted record leaves out.

    `parts` are tokens of the prompt by part, corrected: system, history, documents, tools (what they answered),
    question, offered (the tools' descriptions) and total; `trimmed` what had to go (`rag_graph.context`). `completion`
    are the tokens it wrote, estimated where its endpoint does not count.
    """

    role: str
    model: str
    messages: tuple[Mapping[str, str], ...]  # {"role", "content"}
    estimated: int
    counted: int
    question: str = ""
    parts: Mapping[str, int] = field(default_factory=dict)
    trimmed: tuple[str, ...] = ()
    completion: int = 0


@dataclass(frozen=True, slots=True)
class Price:
    """Of a million tokens, in whatever currency the settings name."""

    prompt: float
    completion: float


def kept(calls: Sequence[Asked], text: Text) -> list[dict[str, Any]]:
    """Rows for `runs.prompts`. "redacted" shows the prompt with what people and documents said left out, and how long
    it was; "none" the counts alone."""
    return [
        {
            "role": call.role,
            "model": call.model,
            "estimated": call.estimated,
            "counted": call.counted,
            "completion": call.completion,
            "parts": dict(call.parts),
            "trimmed": list(call.trimmed),
            **(
                {}
                if text == "none"
                else {"messages": [_message(m, call.question, text) for m in call.messages]}
            ),
        }
        for call in calls
    ]


def searches(queries: Sequence[str]) -> tuple[dict[str, Any], ...]:
    """A row for `runs.prompts` with the wordings that were searched for, in order; none where there was only one, which
    the run holds anyway. They stand under "messages", and so go with the words of prompts when their time is over."""
    if len(queries) < 2:
        return ()
    return ({"role": SEARCH, "messages": [{"role": SEARCH, "content": query} for query in queries]},)


def cost(calls: Sequence[Mapping[str, Any]], prices: Mapping[str, Price]) -> float | None:
    """What rows for `runs.prompts` cost. None without prices, or where one of the models asked has none; nothing asked
    cost nothing."""
    asked = [call for call in calls if call["role"] != SEARCH]
    if not prices or any(call["model"] not in prices for call in asked):
        return None
    return sum(_cost(call, prices[call["model"]]) for call in asked)


def _cost(call: Mapping[str, Any], price: Price) -> float:
    prompt = call["counted"] or call.get("parts", {}).get("total") or call["estimated"]
    return float(prompt * price.prompt + call.get("completion", 0) * price.completion) / MILLION


class Prompts:
    """The calls of questions that are being answered in this process, until their run is written down; and of what kind
    the last fault was that cut one short."""

    def __init__(self, text: Text, prices: Mapping[str, Price] | None = None) -> None:
        self._text = text
        self._prices = prices or {}
        self._calls: dict[str, list[Asked]] = {}
        self._faults: dict[str, str] = {}

    def hear(self, question_id: str, call: Asked) -> None:
        """A model was asked something for that question."""
        self._calls.setdefault(question_id, []).append(call)
        _forget_abandoned(self._calls)

    def take(self, question_id: str) -> tuple[dict[str, Any], ...]:
        """Rows for `runs.prompts`, once."""
        return tuple(kept(self._calls.pop(question_id, []), self._text))

    def cost(self, calls: Sequence[Mapping[str, Any]]) -> float | None:
        """What those rows cost, at the prices of this process."""
        return cost(calls, self._prices)

    def failed(self, question_id: str, kind: str) -> None:
        """That question's run was cut short; `kind` names the error, never its text."""
        self._faults[question_id] = kind
        _forget_abandoned(self._faults)

    def fault(self, question_id: str) -> str:
        """What cut it short last, once; "" where that is not known here."""
        return self._faults.pop(question_id, "")


ABANDONED: Final = 500  # questions


def _forget_abandoned(held: dict[str, Any]) -> None:
    """Runs that were killed never take theirs."""
    while len(held) > ABANDONED:
        del held[next(iter(held))]


def _message(message: Mapping[str, str], question: str, text: Text) -> dict[str, str]:
    if text == "full":
        return dict(message)
    content = _FENCED.sub(lambda m: f"{m[1]}({len(m[3])} characters){m[4]}", message["content"])
    if question:
        content = content.replace(question, f"({len(question)} characters)")
    # What is neither fenced nor the question, a rewrite's history for one, is only known from the system's own part.
    return {
        **message,
        "content": content if message["role"] == "system" or _FENCED.search(content) else _size(content),
    }


def _size(content: str) -> str:
    return f"({len(content)} characters)"
