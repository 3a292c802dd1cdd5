"""Use case: a correction. An answer that was sent and is no longer right is changed where it stands, marked, and the
asker and those who judged it are told."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import structlog

from bot.deliver import Deliverer, NotDelivered
from bot.messages import AGAIN, Reactions, Reply
from bot.principals import readers
from bot.words import Words
from store import Store
from store.conversations import QuestionRow
from store.deliveries import DeliveryRow, NewDelivery
from store.errors import NotFound

__all__ = ["Correcting", "Correction", "corrected"]

log = structlog.get_logger(__name__)

PLATFORMS_WITH_DIRECT_MESSAGES = ("slack", "feishu")
EMPTIED = ("withdrawn", "closed")  # of these nothing is shown


@dataclass(frozen=True, slots=True)
class Correction:
    """What happened to an answer. `kind`: changed (a source says something else now), gone (its document was removed),
    withdrawn (a reviewer found it wrong), replaced (`reply` is what is right), confirmed (it was looked at again and
    stands), closed (those who read it may not read any more what it rests on). `key` names the occasion: the same one
    corrects once. `by` is empty where nobody decided. `audience` is who may read `reply`."""

    kind: str
    key: str
    by: str = ""
    title: str = ""
    reply: Reply | None = None
    audience: tuple[str, ...] = ("everyone",)


def corrected(words: Words, told: Reply, correction: Correction, at: datetime) -> Reply:
    """The message as it stands from now on: a mark that says what happened, and the answer as far as it may stand."""
    before = told.meta.get("correction") or {}
    was = replace(told, text=str(before.get("text", told.text)))
    base = correction.reply or was
    day = f"{at:%Y-%m-%d}"
    mark = words(told.language, f"correction.{correction.kind}", title=correction.title, day=day)
    gone = correction.kind in EMPTIED
    parts = [f"**{mark}**"] if gone else [f"**{mark}**", base.text]
    meta = {
        **base.meta,
        "correction": {
            "kind": correction.kind, "key": correction.key, "by": correction.by, "at": at.isoformat(),
            "text": "" if gone else base.text,
        },
    }  # fmt: skip
    return Reply(told.kind, "\n\n".join(parts), told.language, () if gone else base.citations, meta)


class Correcting:
    """`days` is how far back answers are corrected; 0: never."""

    def __init__(self, store: Store, deliverer: Deliverer, words: Words, *, days: float) -> None:
        self._store = store
        self._deliverer = deliverer
        self._words = words
        self._days = days

    @property
    def since(self) -> datetime:
        return datetime.now(UTC) - timedelta(days=self._days)

    async def recheck(self, document_id: int) -> int:
        """Job `recheck`: mark what was answered lately from passages that the document no longer has; returns how many
        answers that were."""
        if not self._days:
            return 0
        now = {chunk.content_hash for chunk in await self._store.verified.now(document_id)}
        marked = 0
        for question in await self._store.conversations.citing(document_id, self.since):
            cited = [c for c in (question.answer or {})["citations"] if c["document_id"] == document_id]
            lost = sorted({c["content_hash"] for c in cited} - now)
            if not lost:
                continue
            kind = "changed" if now else "gone"
            key = f"{kind}:{document_id}:{lost[0][:12]}"
            await self.correct(question, Correction(kind, key, title=str(cited[0]["title"])))
            marked += 1
        return marked

    async def correct_all(self, question_ids: Sequence[str], correction: Correction) -> int:
        """Correct each of those questions; returns how many there were to correct."""
        rows = await self._store.conversations.among(question_ids)
        answered = [row for row in rows if row.state == "answered"]
        for row in answered:
            await self.correct(row, correction)
        return len(answered)

    async def correct(self, question: QuestionRow, correction: Correction) -> None:
        """Change what was sent, and tell. Every step may be repeated after a crash."""
        if question.state != "answered" or question.answer is None:
            return
        told = Reply.from_json(question.answer)
        earlier = told.meta.get("correction") or {}
        another = earlier.get("key") != correction.key
        if another and (
            earlier.get("kind") == "withdrawn" or (earlier.get("kind") == "closed" and not correction.reply)
        ):
            return  # what was taken back stays so
        conversation = await self._store.conversations.get(question.conversation_id)
        here = await self._as_open(told, correction, readers(conversation, question.asker))
        if not another and earlier["kind"] == "closed":  # killed before all was told
            here = Correction("closed", correction.key, correction.by)
        before, now = told, datetime.now(UTC)
        if another:
            told = corrected(self._words, before, here, now)
            if not await self._store.conversations.set_state(
                question.id, "answered", answer=told.to_json(), correction=True
            ):
                return  # withdrawn meanwhile
        for row in await self._shown(question):
            shown = told
            if row.purpose.startswith("share:"):
                there = await self._as_open(before, correction, ("everyone", row.purpose.split(":", 2)[2]))
                shown = told if there.kind == here.kind else corrected(self._words, before, there, now)
            await self._deliverer.redraw(row, replace(shown, kind=row.kind))
        await self._store.changes.notify(
            f"conversation:{question.conversation_id}", {"question": question.id}
        )
        await self._tell(question, told, here)
        await self._store.queue.defer(
            "remember", {"question_id": question.id}, lock=f"memory:{question.conversation_id}"
        )

    async def _as_open(self, told: Reply, correction: Correction, principals: Sequence[str]) -> Correction:
        """`correction` as those may read it: where what it shows rests on something that is not for them any more, the
        answer is closed. A document that is gone has no readers, and keeps nothing from anybody."""
        if correction.kind in EMPTIED:
            return correction
        shown = correction.reply or told
        audiences = [correction.audience] if correction.reply else []
        for document in dict.fromkeys(int(citation["document_id"]) for citation in shown.citations):
            try:
                audiences.append((await self._store.documents.show(document)).audience)
            except NotFound:
                continue
        if all(set(audience) & set(principals) for audience in audiences):
            return correction
        return Correction("closed", correction.key, correction.by)

    async def _tell(self, question: QuestionRow, told: Reply, correction: Correction) -> None:
        """The asker in their thread; those who judged the answer or put an emoji on it, by a message of their own where
        there is one."""
        sentence = self._words(
            question.language, f"correction.told_{correction.kind}", title=correction.title
        )
        meta = {"question_id": question.id}
        offer = {"actions": [AGAIN]} if correction.kind not in ("replaced", "confirmed") else {}
        platform = question.conversation_id.split(":", 1)[0]
        purpose = f"corrected:{question.id}:{correction.key}"
        await self._quietly(
            NewDelivery(
                purpose=purpose,
                platform=platform,
                kind="notice",
                address=question.address,
                content=Reply("notice", sentence, question.language, meta={**meta, **offer}).to_json(),
                conversation_id=question.conversation_id,
                question_id=question.id,
            )
        )
        elsewhere = self._words(question.language, "correction.told_elsewhere")
        for person in await self._interested(question):
            house, _, user = person.partition(":")
            if person == question.asker or house not in PLATFORMS_WITH_DIRECT_MESSAGES:
                continue
            if not self._deliverer.knows(house):
                continue
            # Where it stands they read with the channel's rights, here with their own.
            theirs = await self._as_open(told, correction, ("everyone", person))
            asked = self._words(
                question.language,
                "correction.judged",
                sentence=sentence if theirs.kind == correction.kind else elsewhere,
                question=question.text[:300],
            )
            await self._quietly(
                NewDelivery(
                    purpose=f"{purpose}:{person}",
                    platform=house,
                    kind="notice",
                    address={"user": user},
                    content=Reply("notice", asked, question.language, meta=meta).to_json(),
                    question_id=question.id,
                )
            )

    async def _interested(self, question: QuestionRow) -> list[str]:
        """Principals of those who judged the answer, and of those who put an emoji on it where it stands."""
        judged = await self._store.conversations.feedback_on(question.id)
        found = {opinion.person for opinion in judged}
        for row in await self._shown(question):
            house: object = self._deliverer.platform(row.platform)
            if isinstance(house, Reactions) and row.message_id:
                try:
                    found |= set(await house.reacted(row.message_id))
                except OSError as error:
                    log.warning("correction.reactions_unread", question=question.id, error=str(error))
        return sorted(found)

    async def _shown(self, question: QuestionRow) -> list[DeliveryRow]:
        """The messages that show the answer: in its thread, and where it was shared. Those on a platform that is set up
        no more stay as they are."""
        return [
            row
            for row in await self._store.deliveries.for_question(question.id)
            if row.state == "sent"
            and self._deliverer.knows(row.platform)
            and (row.purpose == f"answer:{question.id}" or row.purpose.startswith(f"share:{question.id}:"))
        ]

    async def _quietly(self, new: NewDelivery) -> None:
        """What cannot be sent now has its row, and is tried again from there."""
        try:
            await self._deliverer.deliver(new)
        except NotDelivered as error:
            log.warning("correction.later", error=str(error))
