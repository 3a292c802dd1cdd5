"""Use case: verified answers. Kept when a person signs, served by the graph, looked at again when a source changes."""

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog

from bot import replies
from bot.cards import Cards
from bot.correcting import Correcting, Correction
from bot.differences import differences
from bot.words import Words
from rag_graph.advance import Outcome
from rag_graph.contracts import Draft, Known
from rag_graph.drafting import edited
from rag_graph.likeness import wording
from rag_graph.reuse import alone
from store import Store
from store.conversations import QuestionRow
from store.counterparts import counterpart
from store.errors import EmbeddingFailed, NotFound
from store.reviews import NewReview, ReviewRow
from store.text import language
from store.verified import NewVerified, Source, Verified, VerifiedRow

__all__ = ["SignedShelf", "Verifying", "of_verified"]

log = structlog.get_logger(__name__)

FOR_EVER = datetime(2000, 1, 1, tzinfo=UTC)
NEAREST_SURE = 0.05  # below this two questions have nothing to do with each other
# A review of a verified answer has no graph that waits for it: its interrupt says whose it is, and the how-manieth.
INTERRUPT = re.compile(r"verified:(\d+):(\d+)")
DRAFT = {field.name for field in dataclasses.fields(Draft)}


class SignedShelf:
    """Implements `rag_graph.contracts.Shelf`. `days` is how long an answer serves unseen; 0: for ever."""

    def __init__(self, verified: Verified, days: float) -> None:
        self._verified = verified
        self._days = days

    async def near(self, question: str, principals: Collection[str]) -> list[Known]:
        since = datetime.now(UTC) - timedelta(days=self._days) if self._days else FOR_EVER
        rows = await self._verified.near(question, wording(question), principals, since)
        return [
            Known(
                row.id, row.question, row.answer, row.signed_by, row.signed_at.isoformat(), row.how, row.sure
            )
            for row in rows
        ]

    async def standing(self, known_id: int, principals: Collection[str]) -> Mapping[str, int]:
        return await self._verified.standing(known_id, principals)


def of_verified(review: ReviewRow) -> int | None:
    """The verified answer that this review looks at again; None of a held draft."""
    match = INTERRUPT.fullmatch(review.interrupt_id)
    return int(match[1]) if match else None


class Verifying:
    """`shelf` is None where answers are not to be used again: then nothing is kept either."""

    def __init__(
        self,
        store: Store,
        cards: Cards,
        correcting: Correcting,
        words: Words,
        *,
        shelf: SignedShelf | None,
        days: float,
    ) -> None:
        self._store = store
        self._cards = cards
        self._correcting = correcting
        self._words = words
        self._shelf = shelf
        self._days = days

    # --- when a question ends

    async def settled(self, row: QuestionRow, outcome: Outcome) -> None:
        """A question was answered: note that a verified answer served it, or keep what was signed. May be repeated."""
        if outcome.verified:
            await self._store.verified.used(int(outcome.verified["id"]), row.id)
        elif outcome.review_status in ("approved", "edited") and outcome.draft is not None:
            await self._keep(row, outcome, outcome.draft)

    async def _keep(self, row: QuestionRow, outcome: Outcome, draft: Draft) -> None:
        question = outcome.whole or outcome.question or row.text
        if self._shelf is None or not alone(question):
            return
        # Of an edited answer also what only its draft cited: it may still tell of it.
        reviewed = [review for review in await self._store.reviews.for_question(row.id) if review.decided_by]
        cited = [*reviewed[-1].draft.get("citations", ())] if reviewed else []
        sources = {(int(c["document_id"]), str(c["content_hash"])) for c in cited}
        sources |= {(c.document_id, c.content_hash) for c in draft.citations}
        await self._store.verified.keep(
            NewVerified(
                question_id=row.id,
                question=question,
                language=language(question),
                wording=wording(question),
                answer=draft.to_json(),
                sources=sources,
                signed_for=draft.audience,
                signed_by=outcome.decided_by,
                how=outcome.review_status,
            )
        )

    async def nearest(self, question: str, draft: Draft) -> dict[str, Any] | None:
        """The signed answer nearest to a held question, with how the draft differs, for the card: only one that
        everybody who may read the draft may read too."""
        if self._shelf is None or not draft.audience:
            return None
        for known in await self._shelf.near(question, draft.audience):
            row = await self._store.verified.get(known.id)
            if (known.sure or 0.0) < NEAREST_SURE or not _covers(row.audience, draft.audience):
                continue
            text = str(known.answer["text"])
            return {
                "id": known.id,
                "question": known.question,
                "answer": text,
                "signed_by": known.by,
                "signed_at": known.at,
                "sure": known.sure,
                "diff": differences(text, draft.text),
            }
        return None

    # --- when a source changes, or time passes

    async def tend(self) -> None:
        """Every few minutes: what is too old goes back to a reviewer; vectors that are missing are made."""
        if self._shelf is None:
            return
        await self._store.verified.outlived(self._days)
        await self.embed()

    async def embed(self) -> None:
        """Job `embed_verified`. Without a model answers are found by their wording."""
        try:
            await self._store.verified.embed()
        except EmbeddingFailed as error:
            log.info("verified.not_embedded", error=type(error).__name__)

    async def reopen(self, verified_id: int) -> ReviewRow | None:
        """Job `reverify`: put an answer that left service before the reviewers, with what changed. Repeating it opens
        no second review."""
        try:
            row = await self._store.verified.get(verified_id)
        except NotFound:
            return None
        if row.state != "review":
            return None
        if row.question_id is None:
            await self._store.verified.retire(row.id, "", "asked in a conversation that is gone")
            return None
        if not row.audience:  # nor a reviewer, then
            await self._store.verified.retire(row.id, "", "nobody may read all of its sources any more")
            return None
        earlier = [
            review
            for review in await self._store.reviews.for_question(row.question_id)
            if of_verified(review) == row.id
        ]
        pending = next((review for review in earlier if review.state == "pending"), None)
        review = pending or await self._store.reviews.open(await self._second_look(row, len(earlier) + 1))
        if review.state == "withdrawn":
            await self._store.verified.retire(row.id, "", "its question was taken back")
            return review
        await self._store.changes.notify("reviews", {"review": review.id, "state": review.state})
        await self._cards.post(review)
        return review

    async def _second_look(self, row: VerifiedRow, number: int) -> NewReview:
        sources = await self._store.verified.sources(row.id)
        draft = Draft.from_json(row.answer)
        now, changes = await self._now(sources)
        readers = {"everyone", *row.audience}
        ids = [now[c.content_hash] for c in draft.citations if c.content_hash in now]
        passages = await self._store.search.passages(ids, readers)
        numbers = {
            citation.number: place
            for place, citation in enumerate([c for c in draft.citations if c.content_hash in now], 1)
        }
        text = re.sub(
            r"\s?\[(\d+)\]",
            lambda m: f"{m[0][: -len(m[1]) - 2]}[{numbers[int(m[1])]}]" if int(m[1]) in numbers else "",
            draft.text,
        )
        whole = len(passages) == len(dict.fromkeys(ids)) == len(ids)
        again = edited(dataclasses.replace(draft, text=text, round=1), passages if whole else [])
        assert row.question_id is not None
        asked = await self._store.conversations.question(row.question_id)
        return NewReview(
            question_id=row.question_id,
            interrupt_id=f"verified:{row.id}:{number}",
            round=1,
            version_hash=again.version_hash,
            reason=f"verified:{row.reason}",
            draft={
                **again.to_json(),
                "rewritten_question": "" if row.question == asked.text else row.question,
                "retrieved": ids,
                "verified": {"id": row.id, "by": row.signed_by, "at": row.signed_at.isoformat()},
                "changes": changes,
            },
            audience=row.audience,
        )

    async def _now(self, sources: Sequence[Source]) -> tuple[dict[str, int], list[dict[str, Any]]]:
        """Content hash as signed → passage id of what stands there now; and what changed, for the card."""
        now: dict[str, int] = {}
        changes: list[dict[str, Any]] = []
        for source in sources:
            chunks = await self._store.verified.now(source.document_id)
            same = next((chunk for chunk in chunks if chunk.content_hash == source.content_hash), None)
            chunk = same or counterpart(source.heading_path, source.text, chunks)
            if chunk is not None:
                now[source.content_hash] = chunk.id
            if same is None:
                after = chunk.text if chunk is not None else ""
                changes.append(
                    {
                        "title": source.title,
                        "document_id": source.document_id,
                        "gone": chunk is None,
                        "diff": differences(source.text, after),
                    }
                )
        return now, changes

    # --- when it is decided

    async def decided(self, review: ReviewRow) -> None:
        """A reviewer looked at a verified answer again. Called by the job `resume`; may be repeated."""
        verified_id = of_verified(review)
        assert verified_id is not None
        assert review.decision is not None
        by = review.decided_by or ""
        try:
            row = await self._store.verified.get(verified_id)
        except NotFound:
            return
        if review.state in ("approved", "edited"):
            await self._renew(row, review, by)
        elif review.state == "rejected":
            await self.retire(
                row.id, by, review.decision.get("reason") or "rejected", wrong=True, key=f"r{review.id}"
            )
        else:
            await self.retire(row.id, by, review.state)

    async def _renew(self, row: VerifiedRow, review: ReviewRow, by: str) -> None:
        draft = Draft.from_json({key: value for key, value in review.draft.items() if key in DRAFT})
        sources = {(c.document_id, c.content_hash) for c in draft.citations}
        if review.state == "edited":
            assert review.decision is not None
            ids = [c.passage_id for c in draft.citations]
            passages = await self._store.search.passages(ids, {"everyone", *row.audience})
            draft = edited(dataclasses.replace(draft, text=str(review.decision["text"])), passages)
        if row.state == "review" and not await self._store.verified.renew(
            row.id, draft.to_json(), sources, by, review.state
        ):
            if sources:
                await self.reopen(row.id)  # changed once more while it lay there
            else:
                await self._store.verified.retire(row.id, by, "no source is left")
            return
        kind = "confirmed" if review.state == "approved" else "replaced"
        for question in await self._store.conversations.among(
            await self._store.verified.uses(row.id, self._correcting.since)
        ):
            reply = replies.verified(self._words, question, draft, by, datetime.now(UTC), review.state)
            correction = Correction(kind, f"r{review.id}", by, reply=reply, audience=row.audience)
            await self._correcting.correct(question, correction)

    async def retire(
        self, verified_id: int, by: str, reason: str, *, wrong: bool = False, key: str = ""
    ) -> bool:
        """Take an answer out of service for good; where it was `wrong`, those who were given it are told. False where
        it was retired already. Raises `NotFound`."""
        row = await self._store.verified.get(verified_id)
        retired = await self._store.verified.retire(row.id, by, reason)
        if wrong:
            uses = await self._store.verified.uses(row.id, self._correcting.since)
            await self._correcting.correct_all(uses, Correction("withdrawn", key or f"v{row.id}", by))
        return retired


def _covers(wide: Sequence[str], narrow: Sequence[str]) -> bool:
    """May everybody in `narrow` read what is for `wide`?"""
    return "everyone" in wide or set(narrow) <= set(wide)
