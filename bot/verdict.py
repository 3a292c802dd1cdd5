"""Use case: why a question was not answered from what should have answered it, and what mends that."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bot.findings import Finding
from bot.low_recall import DEEP, Asked, examine_question, line
from bot.principals import readers
from bot.words import Words
from rag_graph.verdict import Facts, Match, Verdict, judge
from store.conversations import ConversationRow, QuestionRow
from store.runs import RunRow
from store.text import clean
from store.tracing import Place

if TYPE_CHECKING:
    from bot.app import App

__all__ = ["Case", "Hint", "Ruling", "find", "reason", "remedy", "telling"]

SHOWN = 6  # verdicts, where several documents are like the one that was named


@dataclass(frozen=True, slots=True)
class Hint:
    """What should have answered: a part of the document's title or source, words of its passage, or both."""

    name: str = ""
    words: str = ""

    def __bool__(self) -> bool:
        return bool(self.name.strip() or self.words.strip())


@dataclass(frozen=True, slots=True)
class Case:
    """A question with one of its runs."""

    question: QuestionRow
    conversation: ConversationRow
    run: RunRow

    @property
    def principals(self) -> tuple[str, ...]:
        return readers(self.conversation, self.question.asker)

    @property
    def searched(self) -> str:
        """What was searched for; "" once its words are gone."""
        return self.run.rewritten_question or self.question.text


@dataclass(frozen=True, slots=True)
class Ruling:
    """`verdicts`, the furthest first. `presumed`: nobody said what should have answered, so that it is what was cited,
    else whatever comes nearest to the question, readable or not. `now` is the place that it has when its readers search
    today, 0 beyond the first fifty. `checks` is the checklist for low recall."""

    verdicts: tuple[Verdict, ...]
    presumed: bool = False
    now: int = 0
    checks: tuple[Finding, ...] = ()

    @property
    def first(self) -> Verdict:
        return self.verdicts[0]


def telling(rows: Sequence[RunRow]) -> RunRow | None:
    """The run that a verdict is about: the last one that found something, else the last."""
    return next((row for row in reversed(rows) if row.retrieved), rows[-1] if rows else None)


async def find(app: "App", case: Case, hint: Hint, language: str) -> Ruling | None:
    """The verdict on a run. None where nothing is left to go by: the words of the question were forgotten, it cited
    nothing, and nobody says what should have answered."""
    presumed = not hint
    places = [] if presumed else await app.store.tracing.places(hint.name, hint.words)
    matches = [_match(place, case) for place in places]
    if presumed:
        if not case.run.cited and not case.searched:
            return None
        matches = await _presumed(app, case)
    facts = _facts(app, case)
    verdicts = judge(facts, await _with_gone(app, case, matches))[:SHOWN]
    now = 0
    checks: tuple[Finding, ...] = ()
    if verdicts[0].fault not in ("cited", "not_cited") and case.searched:
        now = await _place_now(app, case, verdicts[0].match)
        title = verdicts[0].match.title if verdicts[0].match else hint.name
        asked = Asked(case.searched, case.principals, title, language)
        checks = tuple(await examine_question(app, asked))
    return Ruling(tuple(verdicts), presumed, now, checks)


def reason(words: Words, language: str, case: Case, ruling: Ruling, verdict: Verdict) -> str:
    """What became of the passage, in a sentence."""
    return _say(words, language, case, ruling, verdict, "said")


def remedy(words: Words, language: str, case: Case, ruling: Ruling, verdict: Verdict) -> str:
    """What mends it."""
    if verdict.kind == "failed" and verdict.match is not None:
        return _upload(words, language, verdict.match, "remedy")
    return _say(words, language, case, ruling, verdict, "remedy")


def _say(words: Words, language: str, case: Case, ruling: Ruling, verdict: Verdict, part: str) -> str:
    match, run = verdict.match or Match(0, "–"), case.run
    near = part == "remedy" and verdict.kind == "not_retrieved" and ruling.now
    return words(
        language,
        f"verdict.{verdict.kind}.{'near' if near else part}",
        title=match.title,
        document=match.document_id,
        place=verdict.place,
        count=len(run.retrieved),
        read=sum(bool(row.get("read")) for row in run.scores),
        confidence=f"{run.confidence or 0.0:.2f}",
        readers=", ".join(case.principals),
        state=words(language, f"web.documents.states.{match.state}"),
        why=_upload(words, language, match, "what") if match.error else "",
        now=ruling.now,
        error=run.error or run.outcome,
    )


def _upload(words: Words, language: str, match: Match, part: str) -> str:
    """What the reading of its newest version ended in, and what to do."""
    values = {"name": match.title, "detail": match.detail}
    try:
        return words(language, f"ingest.{match.error}.{part}", **values)
    except KeyError:
        return words(language, f"ingest.internal.{part}", **values)


# --- facts


def _facts(app: "App", case: Case) -> Facts:
    run = case.run
    calibrated = bool(((case.question.answer or {}).get("meta") or {}).get("calibrated", True))
    below = line(app.graphs.deps.limits, calibrated=calibrated)
    return Facts(
        retrieved=tuple(run.retrieved),
        read=frozenset(int(row["id"]) for row in run.scores if row.get("read")),
        cited=frozenset(run.cited),
        searched=bool(run.retrieved) or run.outcome == "declined" or "retrieve" in run.timings,
        doubted=run.outcome == "declined" and run.confidence is not None and run.confidence < below,
    )


def _match(place: Place, case: Case) -> Match:
    document = place.document
    return Match(
        document_id=document.id,
        title=document.title,
        passages=place.passages,
        state=document.state,
        error=document.error_code or "",
        detail=document.error_detail or "",
        live=document.version_id is not None,
        there=place.there,
        readable=bool(set(document.audience) & {clean(one) for one in case.principals}),
        later=place.since is not None and place.since > case.run.created_at,
    )


async def _with_gone(app: "App", case: Case, matches: Sequence[Match]) -> list[Match]:
    """The matches, each with those passages of its document that the run found and that are kept no more: as far as
    anybody can tell they would have done, unless what would do is newer than the run."""
    ids = [int(row["id"]) for row in case.run.scores]
    kept = await app.store.tracing.passages(ids) if ids else {}
    gone: dict[int, set[int]] = {}
    for row in case.run.scores:
        if int(row["id"]) not in kept:
            gone.setdefault(int(row["document"]), set()).add(int(row["id"]))
    return [
        match if match.later else replace(match, passages=match.passages | gone.get(match.document_id, set()))
        for match in matches
    ]


async def _presumed(app: "App", case: Case) -> list[Match]:
    """What the run cited; else the passage that comes nearest to the question, whoever may read it, unless even that is
    too far for an answer."""
    if case.run.cited:
        return await _cited(app, case)
    everybody = await app.store.tracing.audiences()
    found = await app.store.search.search(case.searched, everybody, top_k=DEEP)
    if not found.passages or found.confidence < line(app.graphs.deps.limits, calibrated=found.calibrated):
        return []
    nearest = await app.store.tracing.place(found.passages[0].id)
    return [] if nearest is None else [_match(nearest, case)]


async def _cited(app: "App", case: Case) -> list[Match]:
    """The documents that the run cited, also where their passages are kept no more."""
    kept = await app.store.tracing.passages(case.run.cited)
    known = {int(row["id"]): int(row["document"]) for row in case.run.scores}
    known |= {passage.id: passage.document_id for passage in kept.values()}
    titles = await app.store.tracing.titles(list(known.values()))
    cited: dict[int, set[int]] = {}
    for passage in case.run.cited:
        cited.setdefault(known.get(passage, 0), set()).add(passage)
    return [Match(document, titles.get(document, "–"), frozenset(ids)) for document, ids in cited.items()]


async def _place_now(app: "App", case: Case, match: Match | None) -> int:
    if match is None or not match.readable:
        return 0
    found = await app.store.search.search(case.searched, case.principals, top_k=DEEP)
    places = (place for place, passage in enumerate(found.passages, 1) if passage.id in match.passages)
    return next(places, 0)
