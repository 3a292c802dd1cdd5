"""What a changed shelf does to verified answers, within the transaction that changes it.

An answer is in service only while every chunk that it cites is what readers see. `sources_changed` is called where a
version becomes current or a document goes; `audiences_changed` where somebody may read more or less than before.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.queue import Queue

__all__ = ["audiences_changed", "sources_changed"]

# A source stands while its document's current version has a chunk with the very same hash, whatever its number.
OUT_OF_SERVICE = text("""
UPDATE verified AS v SET state = 'review', reason = 'changed', ended_at = now(), ended_by = ''
 WHERE v.state = 'active' AND EXISTS (
   SELECT FROM verified_sources AS s
    WHERE s.verified_id = v.id AND s.document_id = ANY(:documents) AND NOT EXISTS (
      SELECT FROM documents AS d JOIN chunks AS c ON c.version_id = d.current_version_id
       WHERE d.id = s.document_id AND c.content_hash = s.content_hash))
RETURNING v.id
""")
# Whom it was signed for, and of those whoever may read every source now. "everyone" in one leaves the others'.
AUDIENCES = text("""
UPDATE verified AS v SET audience = ARRAY(
  SELECT DISTINCT p FROM (
    SELECT unnest(v.signed_for) AS p
    UNION SELECT unnest(d.audience) FROM verified_sources AS s JOIN documents AS d ON d.id = s.document_id
           WHERE s.verified_id = v.id) AS named
   WHERE (p = ANY(v.signed_for) OR 'everyone' = ANY(v.signed_for))
     AND NOT EXISTS (
       SELECT FROM verified_sources AS s LEFT JOIN documents AS d ON d.id = s.document_id
        WHERE s.verified_id = v.id AND (d.id IS NULL OR NOT (p = ANY(d.audience) OR 'everyone' = ANY(d.audience))))
   ORDER BY p)
 WHERE v.state <> 'retired' AND (:only = 0 OR v.id = :only) AND EXISTS (
   SELECT FROM verified_sources AS s WHERE s.verified_id = v.id AND s.document_id = ANY(:documents))
""")


# Documents of which somebody may have been told something: they had another version before, or are gone.
TOLD = text("""
SELECT wanted.id FROM unnest(CAST(:documents AS bigint[])) AS wanted(id)
 WHERE NOT EXISTS (SELECT FROM documents AS d WHERE d.id = wanted.id)
    OR EXISTS (SELECT FROM versions AS v WHERE v.document_id = wanted.id AND v.state = 'retired')
 ORDER BY wanted.id
""")


async def sources_changed(
    connection: AsyncConnection, queue: Queue | None, document_ids: Sequence[int]
) -> list[int]:
    """Take what rests on something that these documents no longer say out of service, and store the jobs that bring it
    back to a reviewer and correct what was sent. Returns the ids of those verified answers."""
    if not document_ids:
        return []
    parameters: dict[str, Any] = {"documents": list(document_ids)}
    gone = [row.id for row in await connection.execute(OUT_OF_SERVICE, parameters)]
    if queue is not None:
        for verified_id in sorted(gone):
            await queue.defer(
                "reverify",
                {"verified_id": verified_id},
                lock=f"verified:{verified_id}",
                connection=connection,
            )
        for row in (await connection.execute(TOLD, parameters)).all():
            await queue.defer(
                "recheck", {"document_id": row.id}, lock=f"recheck:{row.id}", connection=connection
            )
    return gone


async def audiences_changed(
    connection: AsyncConnection, document_ids: Sequence[int], verified_id: int = 0
) -> None:
    """Let verified answers (0: all, else that one) follow the audience of these documents."""
    if document_ids:
        await connection.execute(AUDIENCES, {"documents": list(document_ids), "only": verified_id})
