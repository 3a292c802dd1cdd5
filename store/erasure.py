"""Taking people's words out again: after their time, or because a person or a thread is to be forgotten.

What stays is the audit: which question had which review, who did what and when on which hash – with ids, and with a
pseudonym where a person was named.
"""

import secrets
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, delete, func, null, or_, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from store import rates
from store.changes import announce
from store.database import transaction
from store.people import tidy
from store.reviews import withdraw_pending
from store.schema import (
    canaries,
    conversations,
    feedback,
    gap_owners,
    identities,
    kept,
    questions,
    review_events,
    reviews,
    runs,
    switches,
    verified,
    versions,
)
from store.schema import rates as rates_table
from store.text import clean

__all__ = ["Erased", "Erasure"]

# What a run keeps: ids and numbers.
WORDLESS: dict[str, Any] = {
    "rewritten_question": "",
    "tools": [],
    "prompts": text(
        "coalesce((SELECT jsonb_agg(call - 'messages') FROM jsonb_array_elements(prompts) AS call), '[]'::jsonb)"
    ),
}
EMPTY_DRAFT = {
    "text": "",
    "kind": "model",
    "citations": [],
    "sentences": [],
    "confidence": 0.0,
    "calibrated": False,
}
# The verb of a decision is audit, its words are not.
BARE_DECISION = "jsonb_build_object('action', decision -> 'action', 'by', '')"
# A card is drawn anew without its words; every other message stays on its platform as it is, and is known no more.
FORGET_MESSAGES = """
UPDATE deliveries
   SET content = jsonb_build_object('kind', kind, 'text', '', 'language', content -> 'language',
                                    'citations', '[]'::jsonb, 'meta', '{}'::jsonb),
       address = CASE WHEN kind = 'card' THEN address ELSE '{}'::jsonb END,
       message_id = CASE WHEN kind = 'card' THEN message_id END,
       state = CASE WHEN state IN ('pending', 'sending', 'failed') THEN 'refused' ELSE state END
 WHERE question_id = ANY (:questions)
"""
# Checkpoints of finished questions name a decider too; they go with their own retention.
RENAME = (
    """
UPDATE questions SET answer = jsonb_set(answer, '{meta,signed_by}', to_jsonb(CAST(:alias AS text)))
 WHERE answer #>> '{meta,signed_by}' = ANY (:names)
""",
    """
UPDATE deliveries SET content = jsonb_set(content, '{meta,signed_by}', to_jsonb(CAST(:alias AS text)))
 WHERE content #>> '{meta,signed_by}' = ANY (:names)
""",
    """
UPDATE reviews SET decision = jsonb_set(decision, '{by}', to_jsonb(CAST(:alias AS text)))
 WHERE decision ->> 'by' = ANY (:names)
""",
    """
UPDATE review_events SET detail = jsonb_set(detail, '{by}', to_jsonb(CAST(:alias AS text)))
 WHERE detail ->> 'by' = ANY (:names)
""",
    """
UPDATE reviews SET approved_by =
       ARRAY(SELECT CASE WHEN name = ANY (:names) THEN CAST(:alias AS text) ELSE name END
               FROM unnest(approved_by) WITH ORDINALITY AS had(name, place) ORDER BY place)
 WHERE approved_by && CAST(:names AS text[])
""",
    """
UPDATE review_events SET detail = jsonb_set(detail, '{to}', to_jsonb(CAST(:alias AS text)))
 WHERE detail ->> 'to' = ANY (:names)
""",
    """
UPDATE canaries SET steps =
       (SELECT jsonb_agg(CASE WHEN step ->> 'by' = ANY (:names)
                              THEN jsonb_set(step, '{by}', to_jsonb(CAST(:alias AS text))) ELSE step END ORDER BY place)
          FROM jsonb_array_elements(steps) WITH ORDINALITY AS had(step, place))
 WHERE EXISTS (SELECT FROM jsonb_array_elements(steps) AS step WHERE step ->> 'by' = ANY (:names))
""",
)
# The audit is append-only but for this (store/schema.py).
ERASING = "SELECT set_config('signoff.erasing', 'on', true)"
FIRST_OF = """
UPDATE conversations SET title = ''
 WHERE (SELECT id FROM questions WHERE conversation_id = conversations.id ORDER BY sequence LIMIT 1)
       = ANY (:questions)
"""


@dataclass(frozen=True, slots=True)
class Erased:
    """Whose LangGraph threads are still to be forgotten: (conversation id, question id), and the reviews whose cards
    are still to be drawn anew."""

    questions: tuple[tuple[str, str], ...]
    reviews: tuple[int, ...]


class Erasure:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def old_words(self, before: datetime) -> int:
        """Runs from before that moment keep their numbers and lose their words; returns how many did."""
        wordy = or_(
            runs.c.rewritten_question != "",
            runs.c.tools != text("'[]'::jsonb"),
            text("prompts @? '$[*].messages'"),
        )
        async with transaction(self._engine) as connection:
            await rates.sweep(connection)
            blanked = await connection.execute(
                update(runs).where(runs.c.created_at < before, wordy).values(WORDLESS)
            )
            return blanked.rowcount

    async def left(self, erased: Erased) -> bool:
        """Whether LangGraph still holds anything of what was erased."""
        async with transaction(self._engine) as connection:
            threads = [f"{conversation}/{question}" for conversation, question in erased.questions]
            found = await connection.scalar(
                text(
                    "SELECT EXISTS (SELECT FROM checkpoints WHERE thread_id = ANY (:threads))"
                    " OR EXISTS (SELECT FROM questions WHERE id = ANY (:questions) AND NOT remembered)"
                ),
                {"threads": threads, "questions": [question for _, question in erased.questions]},
            )
        return bool(found)

    async def thread(self, conversation_id: str) -> Erased:
        """Forget everything said in one conversation."""
        async with transaction(self._engine) as connection:
            await connection.execute(text(ERASING))
            erased = await _questions(connection, questions.c.conversation_id == clean(conversation_id), None)
            await connection.execute(
                update(conversations).where(conversations.c.id == clean(conversation_id)).values(title="")
            )
            return erased

    async def person(self, principals: Collection[str]) -> Erased:
        """Forget what a person asked, said and was told, under any of these principals; where they decided, a
        pseudonym stands for them."""
        names = [clean(principal) for principal in principals]
        alias = f"erased:{secrets.token_hex(4)}"
        async with transaction(self._engine) as connection:
            await connection.execute(text(ERASING))
            erased = await _questions(connection, questions.c.asker.in_(names), alias)
            await connection.execute(delete(feedback).where(feedback.c.person.in_(names)))
            await connection.execute(delete(kept).where(kept.c.person.in_(names)))
            await connection.execute(delete(identities).where(identities.c.principal.in_(names)))
            await tidy(connection)
            keys = [f"person:{name}" for name in names]
            await connection.execute(delete(rates_table).where(rates_table.c.key.in_(keys)))
            acted = await _rename(connection, names, alias)
            return replace(erased, reviews=tuple(sorted({*erased.reviews, *acted})))


async def _questions(connection: AsyncConnection, which: ColumnElement[bool], alias: str | None) -> Erased:
    """Empty the questions and all that hangs on them. What is open is withdrawn, and cut where it runs."""
    found = await connection.execute(
        select(questions.c.id, questions.c.conversation_id).where(which).with_for_update()
    )
    rows = [(row.conversation_id, row.id) for row in found]
    ids = [question_id for _, question_id in rows]
    for question_id in ids:
        await withdraw_pending(connection, question_id, "erased")
        await announce(connection, f"question:{question_id}", {"state": "withdrawn"})
    await connection.execute(text(FIRST_OF), {"questions": ids})
    emptied: dict[str, Any] = {
        "text": "", "answer": null(), "edited": None, "address": {}, "state": "withdrawn", "remembered": False,
        "finished_at": func.coalesce(questions.c.finished_at, func.now()),
    }  # fmt: skip
    if alias:
        # The channel of a private conversation is named after the one who reads it.
        own = [conversation_id for conversation_id, _ in rows]
        await connection.execute(
            update(conversations)
            .where(conversations.c.id.in_(own), conversations.c.private)
            .values(channel=alias)
        )
    await connection.execute(
        update(questions).where(questions.c.id.in_(ids)).values(emptied | ({"asker": alias} if alias else {}))
    )
    await connection.execute(update(runs).where(runs.c.question_id.in_(ids)).values(WORDLESS))
    # Its question is theirs; without it nothing can be found by it.
    await connection.execute(delete(verified).where(verified.c.question_id.in_(ids)))
    await connection.execute(delete(feedback).where(feedback.c.question_id.in_(ids)))
    await connection.execute(text(FORGET_MESSAGES), {"questions": ids})
    return Erased(tuple(rows), await _reviews(connection, ids))


async def _reviews(connection: AsyncConnection, question_ids: list[str]) -> tuple[int, ...]:
    emptied = await connection.execute(
        update(reviews)
        .where(reviews.c.question_id.in_(question_ids))
        .values(draft=EMPTY_DRAFT, decision=text(f"CASE WHEN decision IS NOT NULL THEN {BARE_DECISION} END"))
        .returning(reviews.c.id)
    )
    ids = tuple(emptied.scalars())
    await connection.execute(
        update(review_events).where(review_events.c.review_id.in_(ids)).values(detail={})
    )
    return ids


async def _rename(connection: AsyncConnection, names: list[str], alias: str) -> set[int]:
    """The pseudonym in place of the person, wherever they acted; returns the reviews that are to be drawn anew."""
    of_theirs = or_(
        reviews.c.claimed_by.in_(names), reviews.c.decided_by.in_(names), reviews.c.approved_by.overlap(names)
    )
    acted = set((await connection.execute(select(reviews.c.id).where(of_theirs))).scalars())
    for column in (
        reviews.c.claimed_by,
        reviews.c.decided_by,
        review_events.c.actor,
        versions.c.uploaded_by,
        verified.c.signed_by,
        verified.c.ended_by,
        switches.c.set_by,
        gap_owners.c.owner,
        gap_owners.c.owned_by,
        canaries.c.started_by,
    ):
        await connection.execute(update(column.table).where(column.in_(names)).values({column.name: alias}))
    for statement in RENAME:
        await connection.execute(text(statement), {"names": names, "alias": alias})
    return acted
