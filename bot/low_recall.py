"""Why a question finds what it finds: the checklist for low recall, step by step, each with its remedy."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.findings import Finding
from rag_graph.contracts import Limits
from store.passages import Passage, SearchResult
from store.words import query_lexemes

if TYPE_CHECKING:
    from bot.app import App

__all__ = ["DEEP", "Asked", "examine_question", "line"]

DEEP = 50  # as far as the legs themselves look
NEAR = 0.5  # a cosine below this is another subject, for every model


@dataclass(frozen=True, slots=True)
class Asked:
    """A question to look into. `document`: part of the source or title of where its answer stands, if that is known."""

    text: str
    principals: Sequence[str] = ("everyone",)
    document: str = ""
    language: str = "en"  # of the findings


async def examine_question(app: "App", asked: Asked) -> list[Finding]:
    """Every step, also after one has failed: indexed, found by each leg, similar enough, whole, sure enough."""
    found = await app.store.search.search(asked.text, asked.principals, top_k=DEEP)
    report = _Report(app, asked)
    wanted = [passage for passage in found.passages if report.is_wanted(passage)]
    return [
        await report.indexed(),
        report.readable(found),
        report.by_vectors(found, wanted),
        report.by_keywords(found, wanted),
        report.similar(found),
        await report.whole(wanted or list(found.passages[:1])),
        report.sure(found),
    ]


def line(limits: Limits, *, calibrated: bool) -> float:
    """The confidence below which the bot says that it does not know."""
    return limits.abstain_below if calibrated else min(limits.abstain_below, limits.uncalibrated_below)


class _Report:
    """The findings about one question, in the words of its reader."""

    def __init__(self, app: "App", asked: Asked) -> None:
        self._app, self._asked = app, asked

    def is_wanted(self, passage: Passage) -> bool:
        """Is it of the document that was named? None was: none is."""
        name = self._asked.document.lower()
        return bool(name) and (name in passage.source.lower() or name in passage.title.lower())

    async def indexed(self) -> Finding:
        rows = await self._app.admin.list()
        name = self._asked.document.lower()
        named = [row for row in rows if not name or name in row.source.lower() or name in row.title.lower()]
        live = [row for row in named if row.version_id is not None and row.chunk_count]
        if not named:
            return self._finding("indexed", False, "absent", document=self._asked.document or "–")
        if not live:
            states = ", ".join(sorted({row.state for row in named}))
            return self._finding("indexed", False, "unfinished", document=named[0].source, states=states)
        chunks = sum(row.chunk_count for row in live)
        return self._finding("indexed", True, "ok", documents=len(live), chunks=chunks)

    def readable(self, found: SearchResult) -> Finding:
        readers = ", ".join(self._asked.principals)
        return self._finding(
            "readable", bool(found.passages), "ok" if found.passages else "nothing", readers=readers
        )

    def by_vectors(self, found: SearchResult, wanted: Sequence[Passage]) -> Finding:
        if "embedding" in found.degraded:
            return self._finding("vectors", False, "missing")
        return self._leg("vectors", [(p.vector_rank, p) for p in found.passages], wanted)

    def by_keywords(self, found: SearchResult, wanted: Sequence[Passage]) -> Finding:
        return self._leg("keywords", [(p.keyword_rank, p) for p in found.passages], wanted)

    def _leg(
        self, name: str, ranked: Sequence[tuple[int | None, Passage]], wanted: Sequence[Passage]
    ) -> Finding:
        placed = sorted(((rank, passage) for rank, passage in ranked if rank), key=lambda pair: pair[0])
        if not placed:
            return self._finding(name, False, "nothing")
        ids = {passage.id for passage in wanted}
        best = next((rank for rank, passage in placed if passage.id in ids), None)
        first = placed[0][1]
        if self._asked.document and best is None:
            return self._finding(name, False, "elsewhere", title=first.title, document=self._asked.document)
        return self._finding(name, True, "ok", title=first.title, rank=best or 1)

    def similar(self, found: SearchResult) -> Finding:
        cosines = [p.similarity for p in found.passages if p.similarity is not None]
        if not cosines:
            return self._finding("similarity", False, "none")
        best = max(cosines)
        return self._finding(
            "similarity", best >= NEAR, "ok" if best >= NEAR else "low", best=f"{best:.2f}", near=NEAR
        )

    async def whole(self, candidates: Sequence[Passage]) -> Finding:
        """Is what the best passage lacks of the question in the passage before or after it?"""
        if not candidates:
            return self._finding("whole", False, "nothing")
        best = candidates[0]
        words = set(query_lexemes(self._asked.text))
        lacking = words - self._words(best)
        around = await self._app.store.search.neighbours(best.id, self._asked.principals)
        beside = {word for one in around for word in self._words(one)} & lacking
        # A single character is in most passages of a Chinese document.
        telling = sorted(word for word in beside if len(word) > 1)
        if not telling:
            return self._finding("whole", True, "ok", title=best.title)
        return self._finding("whole", False, "cut", title=best.title, words=", ".join(telling[:5]))

    @staticmethod
    def _words(passage: Passage) -> set[str]:
        return set(query_lexemes(" ".join((passage.title, *passage.heading_path, passage.text))))

    def sure(self, found: SearchResult) -> Finding:
        below = line(self._app.graphs.deps.limits, calibrated=found.calibrated)
        key = "ok" if found.confidence >= below else "low"
        return self._finding(
            "sure", key == "ok", key, confidence=f"{found.confidence:.2f}", line=f"{below:.2f}"
        )

    def _finding(self, step: str, ok: bool, key: str, **values: object) -> Finding:
        words, language = self._app.words, self._asked.language
        remedy = "" if ok else words(language, f"recall.{step}.{key}_remedy")
        return Finding(
            words(language, f"recall.{step}.name"),
            ok,
            words(language, f"recall.{step}.{key}", **values),
            remedy,
        )
