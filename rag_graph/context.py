"""What a model is shown for one draft, within its budget of tokens. Pure.

Documents stand between lines that carry a word derived from everything inside, so that no document can contain
the line that would close it. Best passages come first and last (the middle is read worst); a passage keeps its
number whatever its place, and whatever had to go is said in the report.
"""

import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from rag_graph import prompts
from rag_graph.contracts import Material, Passage, Question, Turn
from rag_graph.selection import selected, window
from store.text import estimate_tokens

__all__ = ["Budget", "Context", "build_context", "clipped", "conversation", "reading_order"]

VERBATIM = 3  # turns
FEWER_TURNS = 2
FEWER_DOCUMENTS = 3
SMALLEST_WINDOW = 2_000
ROUNDS = 4  # of leaving out sentences: what a gap's ellipsis costs is known only afterwards
CONDENSED = "condensed"  # how a model's summary of a section is labelled
SCRAPS = 0.3  # of the best passage: what the sentence filter leaves of a text at most is worth reading down to that


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens by part, for a window of 8,000. `documents` may grow to `documents_most` where other parts are small.

    `factor` corrects the estimate by what the endpoint counted (counted / estimated).
    """

    window: int = 8_000
    history: int = 1_500
    documents: int = 3_000
    documents_most: int = 4_000
    tools: int = 800
    question: int = 200
    output: int = 1_000
    factor: float = 1.0

    @classmethod
    def for_window(cls, window: int, factor: float = 1.0) -> "Budget":
        """The same shares of another window, in tokens. Raises ValueError below 2,000: nothing useful fits."""
        if window < SMALLEST_WINDOW:
            raise ValueError(f"a window of {window} tokens is too small; {SMALLEST_WINDOW} is the least")
        base = cls()
        parts = ("history", "documents", "documents_most", "tools", "question", "output")
        return cls(
            window, **{part: getattr(base, part) * window // base.window for part in parts}, factor=factor
        )

    @property
    def input(self) -> int:
        return self.window - self.output

    def cost(self, text: str) -> int:
        """Estimated tokens of `text`."""
        return math.ceil(estimate_tokens(text) * self.factor)


@dataclass(frozen=True, slots=True)
class Context:
    """The messages for one call. `report` is estimated tokens by part; `trimmed` what had to go, in order.

    `shown` are the numbers (from 1, as in the material) of the passages that are in it, best first. `lacking` says that
    of the best one neither a fair part nor its best paragraph with its neighbours fits: a summary has to do.
    """

    system: str
    user: str
    shown: tuple[int, ...]
    report: Mapping[str, int]
    trimmed: tuple[str, ...]
    lacking: bool = False


@dataclass(frozen=True, slots=True)
class _Document:
    """What is shown of one passage. What is `settled` is not cut further: a window, or what a model `condensed`."""

    numbers: tuple[int, ...]
    passage: Passage
    text: str
    settled: bool = False
    condensed: bool = False


@dataclass(frozen=True, slots=True)
class _Parts:
    """The user message before it is put together."""

    boundary: str
    question: str
    summary: str
    turns: tuple[Turn, ...]
    documents: tuple[_Document, ...]
    results: str
    guidance: str


def build_context(
    question: Question,
    turns: Sequence[Turn],
    summary: str,
    material: Material,
    budget: Budget,
    prompt: str = "draft",
) -> Context:
    """The system and user message for `question`, never above `budget.input` by estimate.

    What does not fit goes in this order: the history to two turns, the documents from five to three, then sentences
    that share least with the question. Where that leaves scraps of the best document, its best paragraph is shown with
    one on either side; where not even that fits, the result is `lacking`. Raises ValueError when not even the
    instructions fit.
    """
    texts = [summary, *(p.text for p in material.passages), *(t.answer for t in turns), question.text]
    boundary = _boundary([*texts, material.condensed.text if material.condensed else ""])
    system = prompts.render(prompt, question.language, boundary=boundary)
    parts = _Parts(
        boundary,
        prompts.render(
            "question", question.language, question=clipped(question.text, budget.question, budget)
        ),
        clipped(summary, budget.history // 3, budget),
        tuple(turns[-VERBATIM:]),
        _shown(material),
        clipped(_results(material, boundary), budget.tools, budget),
        _guidance(material, question.language, budget),
    )
    trimmed: list[str] = []
    if parts.question != prompts.render("question", question.language, question=question.text):
        trimmed.append("question")
    parts = _fit_history(parts, budget, trimmed)
    parts = _fit_documents(parts, question, budget, budget.input - budget.cost(system), trimmed)
    user = _joined(parts)
    report = _report(system, user, parts, budget)
    if report["total"] > budget.input:
        raise ValueError(f"instructions and question alone take {report['total']} of {budget.input} tokens")
    shown = tuple(number for document in parts.documents for number in document.numbers)
    lacking = bool(material.passages) and _scraps(parts, material.passages[0])
    return Context(system, user, shown, report, tuple(trimmed), lacking)


def reading_order(count: int) -> list[int]:
    """Ranks 0 … count-1 as they are laid out: best first, second best last, the weakest in the middle."""
    front, back = list(range(0, count, 2)), list(range(1, count, 2))
    return front + back[::-1]


# --- fences -----------------------------------------------------------------------------------------------------


def _boundary(texts: Sequence[str]) -> str:
    """A word that stands in none of `texts`: whoever wrote them could not have known it."""
    whole = "\x00".join(texts)
    digest = hashlib.sha256(whole.encode("utf-8", "replace")).hexdigest()
    length = 8
    while digest[:length] in whole and length < len(digest):
        length += 4
    return digest[:length]


def _fenced(boundary: str, label: str, text: str, end: str) -> str:
    return f"[[{boundary} {label}]]\n{text}\n[[{boundary} end {end}]]"


_BREAKS = re.compile(r"[\s\[\]]+")


def _document(boundary: str, document: _Document) -> str:
    """Number, document, headings, page and date, which a citation needs, in one line; then the text."""
    passage, numbers = document.passage, ", ".join(map(str, document.numbers))
    place = _BREAKS.sub(" ", " › ".join((passage.title, *passage.heading_path)))[:160]
    page = f" · p. {passage.page}" if passage.page else ""
    kind, end = (CONDENSED, CONDENSED) if document.condensed else ("document", numbers)
    label = f"{kind} {numbers} · {place}{page} · {passage.updated_at:%Y-%m-%d}"
    return _fenced(boundary, label, document.text, end)


# --- parts ------------------------------------------------------------------------------------------------------

_MARK = re.compile(r"\s*\[\d{1,3}\]")


def conversation(turns: Sequence[Turn]) -> str:
    """Turns as text, without their citation marks, which count other passages."""
    return "\n".join(
        f"User: {turn.question}\nAssistant: {_MARK.sub('', turn.answer).strip() or f'({turn.status})'}"
        for turn in turns
    )


def _history(parts: _Parts) -> str:
    pieces = []
    if parts.summary:
        pieces.append(_fenced(parts.boundary, "summary", parts.summary, "summary"))
    if parts.turns:
        pieces.append(_fenced(parts.boundary, "conversation", conversation(parts.turns), "conversation"))
    return "\n\n".join(pieces)


def _documents(parts: _Parts) -> str:
    laid = [parts.documents[rank] for rank in reading_order(len(parts.documents))]
    return "\n\n".join(_document(parts.boundary, document) for document in laid)


def _shown(material: Material) -> tuple[_Document, ...]:
    """The passages; first, in the place of those that it is made of, what a model condensed."""
    summary = material.condensed
    numbered = list(enumerate(material.passages, 1))
    if summary is None:
        return tuple(_Document((number,), passage, passage.text) for number, passage in numbered)
    first = material.passages[summary.numbers[0] - 1]
    others = (
        _Document((number,), passage, passage.text)
        for number, passage in numbered
        if number not in summary.numbers
    )
    return (_Document(summary.numbers, first, summary.text, settled=True, condensed=True), *others)


def _results(material: Material, boundary: str) -> str:
    rows = [result for result in material.results if result.get("text")]
    return "\n\n".join(
        _fenced(boundary, f"tool {row.get('name', '')}", str(row["text"]), "tool") for row in rows
    )


def _guidance(material: Material, language: str, budget: Budget) -> str:
    wish = clipped(material.guidance.strip(), budget.question, budget)
    asked = prompts.render("guidance", language, guidance=wish) if wish else ""
    redo = prompts.render("redo", language) if material.redo else ""
    return "\n\n".join(filter(None, (asked, redo)))


def _joined(parts: _Parts) -> str:
    pieces = (_history(parts), _documents(parts), parts.results, parts.guidance, parts.question)
    return "\n\n".join(piece for piece in pieces if piece)


def _report(system: str, user: str, parts: _Parts, budget: Budget) -> dict[str, int]:
    return {
        "system": budget.cost(system),
        "history": budget.cost(_history(parts)),
        "documents": budget.cost(_documents(parts)),
        "tools": budget.cost(parts.results),
        "question": budget.cost(parts.question) + budget.cost(parts.guidance),
        "total": budget.cost(system) + budget.cost(user),
        "limit": budget.input,
    }


# --- fitting ----------------------------------------------------------------------------------------------------


def clipped(text: str, tokens: int, budget: Budget) -> str:
    """`text` cut to `tokens`, its beginning and its end kept (a long question asks at the end)."""
    if budget.cost(text) <= tokens:
        return text
    keep = len(text)
    while keep > 2 and budget.cost(text[: keep // 2] + " … " + text[-(keep // 2) :]) > tokens:
        keep = keep * 9 // 10
    return text[: keep // 2] + " … " + text[-(keep // 2) :] if keep > 2 else ""


def _fit_history(parts: _Parts, budget: Budget, trimmed: list[str]) -> _Parts:
    if budget.cost(_history(parts)) > budget.history and len(parts.turns) > FEWER_TURNS:
        parts = _fewer_turns(parts, trimmed)
    if budget.cost(_history(parts)) > budget.history and parts.turns:
        share = max(budget.history - budget.cost(parts.summary) - 60, 0) // (2 * len(parts.turns))
        turns = tuple(
            replace(t, question=clipped(t.question, share, budget), answer=clipped(t.answer, share, budget))
            for t in parts.turns
        )
        parts = replace(parts, turns=turns)
        trimmed.append("history:clipped")
    if budget.cost(_history(parts)) > budget.history:
        parts = replace(parts, turns=(), summary="")
        trimmed.append("history:0")
    return parts


def _fewer_turns(parts: _Parts, trimmed: list[str]) -> _Parts:
    trimmed.append(f"history:{FEWER_TURNS}")
    return replace(parts, turns=parts.turns[-FEWER_TURNS:])


def _fit_documents(
    parts: _Parts, question: Question, budget: Budget, room: int, trimmed: list[str]
) -> _Parts:
    """`room` is what the whole user message may take."""

    def over(candidate: _Parts) -> int:
        alone = budget.cost(_documents(candidate)) - budget.documents_most
        return max(alone, budget.cost(_joined(candidate)) - room)

    if over(parts) > 0 and len(parts.turns) > FEWER_TURNS:
        parts = _fewer_turns(parts, trimmed)
    if over(parts) > 0 and len(parts.documents) > FEWER_DOCUMENTS:
        parts = _fewer_documents(parts, FEWER_DOCUMENTS, trimmed)
    if over(parts) > 0:
        trimmed.append("sentences")
    whole = parts
    for _ in range(ROUNDS):
        parts = _fewer_sentences(parts, question, budget, over(parts))
    if whole.documents and _scraps(parts, whole.documents[0].passage):
        parts = _windowed(whole, parts, question, budget, over, trimmed)
    return _last_resort(parts, over, trimmed)


def _scraps(parts: _Parts, best: Passage) -> bool:
    """Is hardly anything left of the best passage?"""
    shown = next((document for document in parts.documents if document.passage is best), None)
    if shown is not None and (shown.settled or shown.text == best.text):
        return False
    return estimate_tokens(shown.text if shown else "") < SCRAPS * estimate_tokens(best.text)


def _windowed(
    whole: _Parts,
    scraps: _Parts,
    question: Question,
    budget: Budget,
    over: Callable[[_Parts], int],
    trimmed: list[str],
) -> _Parts:
    """The best paragraph of the best document with one on either side, and of the others what then still fits;
    `scraps` where that paragraph is too long."""
    first, *others = whole.documents
    kept = replace(first, text=window(question.text, first.passage.text), settled=True)
    if over(replace(whole, documents=(kept,))) > 0:
        return scraps
    parts = replace(whole, documents=(kept, *others))
    for _ in range(ROUNDS):
        parts = _fewer_sentences(parts, question, budget, over(parts))
    trimmed.append("window")
    return parts


def _last_resort(parts: _Parts, over: Callable[[_Parts], int], trimmed: list[str]) -> _Parts:
    """A window so small that sentences alone do not help: everything but the question goes, step by step."""
    while over(parts) > 0 and parts.documents:
        parts = _fewer_documents(parts, len(parts.documents) - 1, trimmed)
    if over(parts) > 0:
        parts = replace(parts, turns=(), summary="", results="")
        trimmed.append("history:0")
    return parts


def _fewer_documents(parts: _Parts, count: int, trimmed: list[str]) -> _Parts:
    trimmed.append(f"documents:{count}")
    return replace(parts, documents=parts.documents[:count])


def _fewer_sentences(parts: _Parts, question: Question, budget: Budget, surplus: int) -> _Parts:
    """Leave out the sentences that are worth least to the question until the surplus is gone."""
    if surplus <= 0:
        return parts
    cuttable = [document for document in parts.documents if not document.settled]
    texts = [document.text for document in cuttable]
    room = max(sum(map(estimate_tokens, texts)) - math.ceil(surplus / budget.factor), 0)
    kept = selected(question.text, texts, room, [document.passage.title for document in cuttable])
    cut = {document.numbers: text for document, text in zip(cuttable, kept, strict=True)}
    documents = (
        replace(document, text=cut.get(document.numbers, document.text)) for document in parts.documents
    )
    return replace(parts, documents=tuple(document for document in documents if document.text))
