"""The model of a load run by kind: a perfect reader with a watch.

It knows what each case asks for. For a tool case it calls the tool, for a multi-hop one it searches once more for the
second fact; then it answers with the very lines of the documents in its prompt that state the facts, each with its
mark, and with NO_ANSWER where none does. So an answer is right exactly where search and context brought what was
needed: what a real model makes of it is not in these figures, nor is its time. That is set here: `thinks` seconds to
the first token, then four pieces, `pause` seconds apart.
"""

import asyncio
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.types import Message, Receive, Scope, Send

from rag_graph.evaluation.stating import states
from tests.emulators.openai import OpenAIServer
from tests.emulators.openai_script import Call, Say, Scripted, content, parrot
from tests.load.cases import Case

__all__ = ["Answered", "ReadingServer"]

DOCUMENT = re.compile(
    r"\[\[(?P<fence>\w+) document (?P<number>\d+)[^\n]*\]\]\n(?P<text>.*?)\n\[\[(?P=fence) end", re.DOTALL
)
RESULT = re.compile(
    r"\[\[(?P<fence>\w+) tool (?P<name>\w+)\]\]\n(?P<text>.*?)\n\[\[(?P=fence) end", re.DOTALL
)
TAIL = 600  # characters at the end of a prompt, where the question stands
PIECES = 4


@dataclass(frozen=True, slots=True)
class Answered:
    """One call of the model: the end of its prompt, and the seconds until its answer was out."""

    tail: str
    seconds: float


class ReadingServer(OpenAIServer):
    """`answered` fills up while it serves."""

    def __init__(self, cases: Sequence[Case], *, thinks: float = 0.2, pause: float = 0.05) -> None:
        super().__init__(default=self._answer)
        # A longer text may hold a shorter one: a question of two facts holds that of the first.
        self._cases = sorted(cases, key=lambda case: -len(case.text))
        self._thinks, self._pause = thinks, pause
        self.answered: list[Answered] = []
        self.said = (
            f"a stand-in: {thinks:g} s to the first token, then {PIECES} pieces {pause:g} s apart; it quotes the "
            "lines of its prompt that state the facts, calls the tool of a tool case, and searches once more in a "
            "multi-hop one"
        )

    async def _counted(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not scope.get("path", "").endswith("/chat/completions"):
            await super()._counted(scope, receive, send)
            return
        body = bytearray()

        async def heard() -> Message:
            message = await receive()
            body.extend(message.get("body", b""))
            return message

        began = time.monotonic()
        await asyncio.sleep(self._thinks)
        await super()._counted(scope, heard, send)
        self.answered.append(Answered(_prompt(json.loads(body))[-TAIL:], time.monotonic() - began))

    def _answer(self, body: Mapping[str, Any]) -> Scripted:
        prompt = _prompt(body)
        case = next((one for one in self._cases if one.text in prompt[-TAIL:]), None)
        if case is None:
            return parrot(body)
        called = {found["name"] for found in RESULT.finditer(prompt)}
        if body.get("tools"):
            return _call(case, {tool["function"]["name"] for tool in body["tools"]} - called) or Say("ENOUGH")
        if not called and not DOCUMENT.search(prompt):
            return parrot(body)  # another wording is asked for, not an answer
        text = "\n".join(_lines(case, prompt)) or "NO_ANSWER"
        return Say(text, piece=max(7, -(-len(text) // PIECES)), pause=self._pause)


def _prompt(body: Mapping[str, Any]) -> str:
    return "\n".join(content(message) for message in body["messages"])


def _call(case: Case, offered: set[str]) -> Call | None:
    if case.tool in offered:
        return Call(case.tool, {})
    if case.then and "search_knowledge_base" in offered:
        return Call("search_knowledge_base", {"query": case.then[:200], "top_k": 5})
    return None


def _lines(case: Case, prompt: str) -> list[str]:
    """For each fact the line that states it, of a document with its mark, else of what a tool said."""
    documents = [(int(found["number"]), found["text"]) for found in DOCUMENT.finditer(prompt)]
    results = [found["text"] for found in RESULT.finditer(prompt)]
    lines: dict[str, None] = {}
    for group in case.facts:
        stated = [
            f"{_plain(line)} [{number}]"
            for number, text in sorted(documents)
            for line in text.splitlines()
            if any(states(line, wording) for wording in group)
        ]
        said = [
            line
            for text in results
            for line in text.splitlines()
            if any(states(line, wording) for wording in group)
        ]
        if case.tool == "list_documents":
            stated, said = said, []
        lines |= dict.fromkeys((stated or said)[:1])
    return list(lines)


def _plain(line: str) -> str:
    """A table's row as a sentence has it."""
    return re.sub(r"\s*\|\s*", " ", line).strip(" >-*#")
