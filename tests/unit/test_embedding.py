"""The endpoint's embedder against a strict server, the local model, and none."""

import asyncio
import math
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from store.embedding import Embedder, EndpointEmbedder, LocalEmbedder, NoEmbedder
from store.errors import EmbeddingFailed
from tests.emulators.openai import Hang, Malformed, OpenAIServer, Scripted, Status

MODEL = "text-embedding-test"


@asynccontextmanager
async def embedder(
    server: OpenAIServer, *, model: str = MODEL, timeout: float = 5.0
) -> AsyncIterator[EndpointEmbedder]:
    one = EndpointEmbedder(server.base_url, server.key, model, timeout=timeout)
    yield one
    await one.close()


async def test_the_endpoint_is_sent_strings_and_nothing_is_downloaded() -> None:
    """Chinese and English arrive as they are: token ids would need a vocabulary from the network. Row 36."""
    with OpenAIServer() as server:
        async with embedder(server) as one:
            vectors = await one.passages(["年假", "annual leave"])
    assert [request.body["input"] for request in server.received] == [["年假", "annual leave"]]
    assert server.received[0].body["model"] == MODEL
    assert len(vectors) == 2
    assert vectors[0] != vectors[1]


async def test_long_lists_go_in_batches_and_keep_their_order() -> None:
    """150 texts are three requests, and the vectors come back in the order asked."""
    texts = [f"passage {number}" for number in range(150)]
    with OpenAIServer() as server:
        async with embedder(server) as one:
            vectors = await one.passages(texts)
            assert [len(request.body["input"]) for request in server.received] == [64, 64, 22]
            assert vectors[149] == await one.query("passage 149")


async def test_the_dimension_is_learnt_from_the_first_answer() -> None:
    """0 until the endpoint has answered."""
    with OpenAIServer() as server:
        async with embedder(server) as one:
            assert one.dimension == 0
            await one.query("leave")
            assert one.dimension == 64


@pytest.mark.parametrize("failure", [Status(429, retry_after=0), Status(500), Status(503)])
async def test_failures_that_may_pass_are_tried_again(failure: Scripted) -> None:
    """A limit or a server error costs a retry, not the question."""
    with OpenAIServer() as server:
        server.script(failure)
        async with embedder(server) as one:
            assert len(await one.query("leave")) == 64
        assert len(server.received) == 2


@pytest.mark.parametrize("failure", [Status(500), Status(429)])
async def test_after_three_attempts_the_caller_is_told(failure: Scripted) -> None:
    """A failure that stays is `EmbeddingFailed`, so that search can go on with keywords."""
    with OpenAIServer() as server:
        server.script(*[failure] * 9)
        async with embedder(server) as one:
            with pytest.raises(EmbeddingFailed):
                await one.query("leave")
        assert len(server.received) == 3


@pytest.mark.parametrize("failure", [Status(400), Status(401), Malformed(), Malformed('{"data": null}')])
async def test_what_cannot_pass_is_not_tried_again(failure: Scripted) -> None:
    """A refused request or an answer of another shape fails at once."""
    with OpenAIServer() as server:
        server.script(failure)
        async with embedder(server) as one:
            with pytest.raises(EmbeddingFailed):
                await one.query("leave")
        assert len(server.received) == 1


async def test_a_silent_endpoint_is_given_up() -> None:
    """No answer within the time-out is a failure, after the attempts."""
    with OpenAIServer() as server:
        server.script(*[Hang(5.0)] * 9)
        began = time.monotonic()
        async with embedder(server, timeout=0.2) as one:
            with pytest.raises(EmbeddingFailed):
                await one.query("leave")
        assert time.monotonic() - began < 4


async def test_no_server_at_all_is_a_failure_of_the_same_kind() -> None:
    """A refused connection becomes `EmbeddingFailed` too."""
    with OpenAIServer() as server:
        address, key = server.base_url, server.key
    one = EndpointEmbedder(address, key, MODEL, timeout=1)
    with pytest.raises(EmbeddingFailed):
        await one.query("leave")
    await one.close()


@pytest.mark.parametrize(
    "body",
    [
        '{"object": "list", "data": [], "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}}',
        '{"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [NaN]}], "model": "m", '
        '"usage": {"prompt_tokens": 1, "total_tokens": 1}}',
        '{"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": []}], "model": "m", '
        '"usage": {"prompt_tokens": 1, "total_tokens": 1}}',
    ],
)
async def test_vectors_that_cannot_be_compared_are_refused(body: str) -> None:
    """Missing, empty and not-a-number vectors never reach the index."""
    with OpenAIServer() as server:
        server.script(Malformed(body))
        async with embedder(server) as one:
            with pytest.raises(EmbeddingFailed):
                await one.query("leave")


async def test_another_dimension_later_is_refused() -> None:
    """An endpoint that changes its model behind the name is noticed."""
    body = (
        '{"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [1.0, 0.0]}], "model": "m",'
        ' "usage": {"prompt_tokens": 1, "total_tokens": 1}}'
    )
    with OpenAIServer() as server:
        async with embedder(server) as one:
            await one.query("leave")
            server.script(Malformed(body))
            with pytest.raises(EmbeddingFailed, match="dimension to 2"):
                await one.query("leave")


async def test_models_of_the_e5_family_get_their_prefixes() -> None:
    """E5 reads questions and passages differently; other models get the text alone."""
    with OpenAIServer() as server:
        async with embedder(server, model="intfloat/multilingual-e5-large") as e5:
            await e5.query("年假")
            await e5.passages(["年假"])
        async with embedder(server) as other:
            await other.query("年假")
    assert [request.body["input"] for request in server.received] == [
        ["query: 年假"],
        ["passage: 年假"],
        ["年假"],
    ]


async def test_text_is_cleaned_before_it_is_sent() -> None:
    """NUL and lone surrogates from a chat message do not break the request."""
    with OpenAIServer() as server:
        async with embedder(server) as one:
            await one.query("a\0b\ud800")
    assert server.received[0].body["input"] == ["ab�"]


async def test_without_a_model_there_are_no_vectors() -> None:
    """Questions are refused, so that search says what is missing; passages get no vectors."""
    none: Embedder = NoEmbedder()
    with pytest.raises(EmbeddingFailed):
        await none.query("leave")
    assert await none.passages(["leave"]) == []
    assert none.dimension == 0


@pytest.fixture(scope="module")
def local() -> LocalEmbedder:
    assert LocalEmbedder.available()
    return LocalEmbedder()


async def test_the_local_model_understands_both_languages(local: LocalEmbedder) -> None:
    """A question is nearer to its answer in the other language than to another topic in its own."""
    answer, other = await local.passages(
        ["员工每年有十五天带薪年假。", "The printer is on the second floor."]
    )
    question = await local.query("How many days of annual leave do I get?")
    assert len(question) == local.dimension
    assert _cosine(question, answer) > _cosine(question, other)


async def test_the_local_model_leaves_the_event_loop_alone(local: LocalEmbedder) -> None:
    """While it computes in its thread, other work goes on."""
    ticks = 0
    working = asyncio.ensure_future(local.passages(["带薪年假。" * 20] * 4))
    while not working.done():
        await asyncio.sleep(0.001)
        ticks += 1
    assert len(await working) == 4
    assert ticks > 5


async def test_a_question_overtakes_a_long_document(local: LocalEmbedder) -> None:
    """A question waits for one batch of passages, not for the whole document."""
    document = asyncio.ensure_future(local.passages(["年假"] * 40))
    await asyncio.sleep(0)
    await local.query("年假")
    assert not document.done()
    await document


async def test_any_text_can_be_embedded_locally(local: LocalEmbedder) -> None:
    """Empty text, NUL and lone surrogates give unit vectors."""
    for text in ("", "a\0b", "\ud800", "word " * 600):
        assert math.isclose(math.sqrt(sum(v * v for v in await local.query(text))), 1.0, abs_tol=1e-3)


def test_tokens_are_counted_from_any_thread(local: LocalEmbedder) -> None:
    """Ingestion counts while the model is busy, and gets the model's own count."""
    counts: list[int] = []
    threads = [threading.Thread(target=lambda: counts.append(local.count("年假制度"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(counts)) == 1
    assert 3 <= counts[0] <= 10


def _cosine(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))
