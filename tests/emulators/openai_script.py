"""What the emulated OpenAI endpoint may be told to answer, and what it says without a script."""

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

# How Signoff's prompts show a document, and where the question stands in those that ask for another wording.
DOCUMENT = re.compile(r"^\[\[\w+ document (\d+)[^\n]*\]\]\n(?P<text>[^\n]+)", re.MULTILINE)
ASKED = re.compile(r"^(?:Last question|Question|最后一个问题|问题)\s*[:：]\s*(?P<text>[^\n]+)", re.MULTILINE)


@dataclass(frozen=True)
class Say:
    """Answer with `text`, in pieces of `piece` characters when streaming, `pause` seconds apart."""

    text: str
    piece: int = 7
    pause: float = 0.0


@dataclass(frozen=True)
class Call:
    """Ask for a tool, after `saying` something. `arguments` may be a string, sent as it is: models write broken JSON
    too."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    saying: str = ""


@dataclass(frozen=True)
class Status:
    """An HTTP error in OpenAI's form, with `Retry-After` in seconds where given."""

    code: int
    retry_after: float | None = None
    message: str = "the script says so"


@dataclass(frozen=True)
class Cut:
    """Begin to answer with `text`, then drop the connection."""

    text: str = "The answer beg"


@dataclass(frozen=True)
class Hang:
    """Accept the request and say nothing for `seconds`."""

    seconds: float = 60.0


@dataclass(frozen=True)
class Malformed:
    """Status 200 and a body that is no JSON."""

    body: str = '{"choices": [{"message": {"content": "hal'


@dataclass(frozen=True)
class Empty:
    """A well-formed completion without a choice; with `content` true, one whose text is empty."""

    content: bool = False


Scripted = Say | Call | Status | Cut | Hang | Malformed | Empty


def parrot(body: Mapping[str, Any]) -> Scripted:
    """Without a script: no tool, the same question when asked to reword one, else the first line of document 1."""
    if body.get("tools"):
        return Say("ENOUGH")
    prompt = "\n".join(content(message) for message in body["messages"])
    found = sorted(DOCUMENT.findall(prompt), key=lambda pair: int(pair[0]))
    if found:
        return Say(f"{found[0][1].strip()} [{found[0][0]}]")
    asked = ASKED.findall(prompt)
    return Say(asked[-1] if asked else "NO_ANSWER")


class Unsteady:
    """`then`'s answers, of which the share `odds` is one of `ways` instead, drawn with `seed`. `drawn` remembers what
    each call met."""

    def __init__(
        self,
        odds: float,
        *,
        ways: tuple[Scripted, ...] = (Status(429, 1.0), Status(500), Cut(), Hang()),
        then: Callable[[Mapping[str, Any]], Scripted] = parrot,
        seed: int = 1,
    ) -> None:
        self.drawn: list[str] = []
        self._odds, self._ways, self._then = odds, ways, then
        self._random = random.Random(seed)

    def __call__(self, body: Mapping[str, Any]) -> Scripted:
        failing = self._random.random() < self._odds
        answer = self._random.choice(self._ways) if failing else self._then(body)
        self.drawn.append(type(answer).__name__)
        return answer


class Slow:
    """`parrot`, which thinks for `pause` seconds before each of a text's few pieces."""

    def __init__(self, pause: float) -> None:
        self._pause = pause

    def __call__(self, body: Mapping[str, Any]) -> Scripted:
        answer = parrot(body)
        if not isinstance(answer, Say):
            return answer
        return Say(answer.text, piece=max(7, len(answer.text) // 4), pause=self._pause)


def content(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""
