"""Use case: the trust ramp. Where each topic stands, from what reviewers decided; and putting one back by hand."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rag_graph.policy import Rules
from rag_graph.ramp import Ramp, Standing, standing
from store import Store

__all__ = ["Topic", "Trust"]

SWITCH = "ramp:"  # of a topic that was put back: counted is what was decided since


@dataclass(frozen=True, slots=True)
class Topic:
    """`since` is when somebody put it back by hand."""

    name: str
    standing: Standing
    since: datetime | None = None
    by: str = ""


class Trust:
    def __init__(self, store: Store, rules: Rules, ramp: Ramp) -> None:
        self._store = store
        self._rules = rules
        self.ramp = ramp

    async def standings(self, topics: Sequence[str]) -> list[Standing]:
        """Of these topics, in order; see `rag_graph.ramp.topics`."""
        back = await self._put_back()
        return [await self._standing(topic, back.get(topic, (None, ""))[0]) for topic in topics]

    async def topics(self) -> list[Topic]:
        """Every topic that a rule with a ramp has had a review of."""
        back = await self._put_back()
        found = []
        for rule in self._rules.rules:
            for collection in await self._store.history.collections(rule.name) if rule.ramp else []:
                name = f"{rule.name}/{collection}"
                since, by = back.get(name, (None, ""))
                found.append(Topic(name, await self._standing(name, since), since, by))
        return found

    async def put_back(self, topic: str, by: str) -> bool:
        """Hold everything of a topic again and count anew; False where there is no such topic."""
        if topic not in {known.name for known in await self.topics()}:
            return False
        await self._store.switches.off(SWITCH + topic)
        await self._store.switches.on(SWITCH + topic, by)
        return True

    async def _standing(self, topic: str, since: datetime | None) -> Standing:
        rule, _, collection = topic.partition("/")
        return standing(await self._store.history.outcomes(rule, collection, since), self.ramp)

    async def _put_back(self) -> dict[str, tuple[datetime, str]]:
        rows = await self._store.switches.list(SWITCH)
        return {row.name.removeprefix(SWITCH): (row.set_at, row.set_by) for row in rows}
