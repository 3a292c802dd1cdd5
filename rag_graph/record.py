"""What a model was told, kept for whoever asks why it said what it did, as far as the text setting allows. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

__all__ = ["Asked", "Prompts", "Text", "kept"]

Text = Literal["full", "redacted", "none"]

_FENCED = re.compile(r"(\[\[(\w+) (?!end )[^\]\n]*\]\]\n)(.*?)(\n\[\[\2 end[^\]\n]*\]\])", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Asked:
    """One call of a model: `estimated` tokens by our own estimate, before any correction, and as its endpoint `counted`
    them (0 where it does not). `question` is the asker's text, which a redacted record leaves out."""

    role: str
    model: str
    messages: tuple[Mapping[str, str], ...]  # {"role", "content"}
    estimated: int
    counted: int
    question: str = ""


def kept(calls: Sequence[Asked], text: Text) -> list[dict[str, Any]]:
    """Rows for `runs.prompts`. "redacted" shows the prompt with what people and documents said left out, and how long
    it was; "none" the counts alone."""
    return [
        {
            "role": call.role,
            "model": call.model,
            "estimated": call.estimated,
            "counted": call.counted,
            **(
                {}
                if text == "none"
                else {"messages": [_message(m, call.question, text) for m in call.messages]}
            ),
        }
        for call in calls
    ]


class Prompts:
    """The calls of questions that are being answered in this process, until their run is written down."""

    def __init__(self, text: Text) -> None:
        self._text = text
        self._calls: dict[str, list[Asked]] = {}

    def hear(self, question_id: str, call: Asked) -> None:
        """A model was asked something for that question."""
        self._calls.setdefault(question_id, []).append(call)
        while len(self._calls) > ABANDONED:  # runs that were killed never take theirs
            del self._calls[next(iter(self._calls))]

    def take(self, question_id: str) -> tuple[dict[str, Any], ...]:
        """Rows for `runs.prompts`, once."""
        return tuple(kept(self._calls.pop(question_id, []), self._text))


ABANDONED: Final = 500  # questions


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
