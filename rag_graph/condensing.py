"""What a model is asked to condense when the best passage does not fit into the prompt, and what is kept of it. Pure.

Sentences and the best paragraph come first (rag_graph/context.py); this is for the few passages that have to be read
whole. The draft cites the passages themselves, so a summary keeps their numbers and one without any is not used.
"""

import re
from typing import Final

from rag_graph import prompts
from rag_graph.context import Budget, clipped
from rag_graph.contracts import Condensed, Material, Question
from rag_graph.selection import selected
from store.text import clean

__all__ = ["condensed", "request", "section"]

SHARE: Final = 2  # a summary may take half of what documents may


def section(material: Material) -> tuple[int, ...]:
    """Numbers of the best passage and of those under the same heading, in the document's order."""
    best = material.passages[0]
    there = [
        (passage.ordinal, number)
        for number, passage in enumerate(material.passages, 1)
        if (passage.version_id, passage.heading_path) == (best.version_id, best.heading_path)
    ]
    return tuple(number for _, number in sorted(there))


def request(question: Question, material: Material, budget: Budget) -> str:
    """The prompt that asks for the section of the best passage in fewer words. What a window cannot hold is left out
    by sentences, or cut."""
    numbers = section(material)
    texts = [material.passages[number - 1].text for number in numbers]
    frame = prompts.render("condense", question.language, question=question.text, documents="")
    room = budget.input - budget.cost(frame) - 20 * len(texts)
    cut = selected(question.text, texts, max(0, int(room / budget.factor)))
    # A sentence may be longer than the window: a pasted log, a table in one line.
    cut = cut if any(cut) else [clipped(text, room // len(texts), budget) for text in texts]
    documents = "\n\n".join(f"[{number}]\n{text}" for number, text in zip(numbers, cut, strict=True) if text)
    return prompts.render("condense", question.language, question=question.text, documents=documents)


_MARK = re.compile(r"\s*\[(\d{1,3})\]")


def condensed(answer: str, material: Material, budget: Budget) -> Condensed | None:
    """The model's `answer` as what the draft may read; None where it cites none of the section's passages, or is too
    long to help."""
    numbers = section(material)
    text = _MARK.sub(lambda mark: mark[0] if int(mark[1]) in numbers else "", clean(answer)).strip()
    if not _MARK.search(text) or budget.cost(text) > budget.documents_most // SHARE:
        return None
    return Condensed(numbers, text)
