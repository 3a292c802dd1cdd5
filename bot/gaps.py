"""Use case: what the documents did not settle. Clustered by week, with an owner, asked again when a document comes."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import structlog

from bot.ask import Asking
from bot.principals import readers
from bot.settings import Search
from rag_graph.terms import content
from store import Store
from store.insight import Gap
from store.passages import SearchResult

__all__ = ["Cluster", "Gaps", "clustered"]

log = structlog.get_logger(__name__)

DAYS = 28  # looked back
ALIKE = 0.5  # of the words that carry meaning, as many have to be shared (Jaccard)
# Of one document: questions that are asked again, and of those at most so many of one person.
REPLAYED, OF_ONE = 50, 3
LOOKED_AT = 200  # the newest open questions; each is searched for, some tens of milliseconds
KEPT = 3  # passages that an answer is drafted from
UNCALIBRATED_BELOW = 0.06  # as rag_graph.contracts.Limits
KEY = 8


@dataclass(frozen=True, slots=True)
class Cluster:
    """Questions of one week that ask about the same thing, the first one asked in front. `key` names it in commands."""

    key: str
    week: str  # its Monday, ISO 8601
    gaps: tuple[Gap, ...]
    owner: str = ""

    @property
    def kinds(self) -> Counter[str]:
        return Counter(gap.kind for gap in self.gaps)


def clustered(gaps: Iterable[Gap]) -> list[Cluster]:
    """By week and by what they are about: newest week first, largest cluster first. Pure; the same gaps give the same
    clusters, whatever their order.

    A question joins the cluster whose first question it shares most words with, from half of them on; synonyms make two
    clusters of one gap, which costs a second look and loses nothing.
    """
    weeks: dict[str, list[list[Gap]]] = {}
    for gap in sorted(gaps, key=lambda gap: (gap.asked_at, gap.question_id)):
        found = weeks.setdefault(_week(gap), [])
        alike = [(_likeness(gap.text, other[0].text), -place) for place, other in enumerate(found)]
        best, place = max(alike, default=(0.0, 0))
        if best >= ALIKE:
            found[-place].append(gap)
        else:
            found.append([gap])
    clusters = [_cluster(week, members) for week in sorted(weeks, reverse=True) for members in weeks[week]]
    return sorted(clusters, key=lambda c: (-_ordinal(c.week), -len(c.gaps), c.key))


def _cluster(week: str, members: Sequence[Gap]) -> Cluster:
    key = hashlib.sha256(members[0].question_id.encode()).hexdigest()[:KEY]
    return Cluster(key, week, tuple(members), next((gap.owner for gap in members if gap.owner), ""))


def _likeness(one: str, other: str) -> float:
    mine, theirs = set(content(one)), set(content(other))
    together = mine | theirs
    return len(mine & theirs) / len(together) if together else 0.0


def _week(gap: Gap) -> str:
    return (gap.asked_at - timedelta(days=gap.asked_at.weekday())).strftime("%Y-%m-%d")


def _ordinal(week: str) -> int:
    return datetime.strptime(week, "%Y-%m-%d").replace(tzinfo=UTC).toordinal()


class Gaps:
    def __init__(self, store: Store, asking: Asking, search: Search) -> None:
        self._store = store
        self._asking = asking
        self._search = search

    async def clusters(self, *, private: bool = False) -> list[Cluster]:
        """Of the last weeks. What people asked in private is left out unless it is only counted."""
        found = await self._store.insight.gaps(datetime.now(UTC) - timedelta(days=DAYS))
        return clustered(gap for gap in found if private or not gap.private)

    async def own(self, key: str, owner: str, by: str) -> Cluster | None:
        """Give a cluster to `owner` (a principal; "" to nobody). None where no cluster is called that."""
        for cluster in await self.clusters():
            if cluster.key == key:
                ids = [gap.question_id for gap in cluster.gaps]
                await self._store.insight.own(ids, owner, by)
                return replace(cluster, owner=owner)
        return None

    async def replay(self, version_id: int) -> int:
        """Job `replay`: a version of a document became visible. Ask again, in their threads, the open questions that it
        may answer; returns how many. The rules apply to the new answers as to any. Repeating it asks nothing twice."""
        version = await self._store.documents.version(version_id)
        if version.state != "live":
            return 0
        asked: Counter[str] = Counter()
        for gap in await self._store.insight.gaps(datetime.now(UTC) - timedelta(days=DAYS), LOOKED_AT):
            row = await self._store.conversations.question(gap.question_id)
            if sum(asked.values()) >= REPLAYED or asked[row.asker] >= OF_ONE:
                continue
            conversation = await self._store.conversations.get(row.conversation_id)
            execution = await self._store.runs.latest(row.id)
            searched = (execution.rewritten_question if execution else "") or row.text
            result = await self._store.search.search(searched, readers(conversation, row.asker), top_k=KEPT)
            if not self._answers(result, version.document_id):
                continue
            if await self._asking.replay(row.id, f"replay:{version_id}", title=version.title):
                asked[row.asker] += 1
        replayed = sum(asked.values())
        if replayed:  # a first start reads thirty documents, and nobody has asked yet
            log.info("gaps.replayed", version=version_id, questions=replayed)
        return replayed

    def _answers(self, result: SearchResult, document_id: int) -> bool:
        """Whether the document is among what the answer would be drafted from, and that is sure enough."""
        line = self._search.abstain_below if result.calibrated else UNCALIBRATED_BELOW
        found = any(passage.document_id == document_id for passage in result.passages[:KEPT])
        return found and result.confidence >= line
