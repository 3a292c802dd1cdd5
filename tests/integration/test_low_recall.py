"""`signoff doctor --question`: each step of the checklist says what it saw, and what to do where it fails."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.app import App, Parts, open_app
from bot.doctor import examine
from bot.findings import Finding
from bot.low_recall import Asked, examine_question
from bot.settings import Settings
from store.embedding import NoEmbedder
from store.reranking import EndpointReranker
from tests.embedder import HashEmbedder
from tests.emulators.reranker import KEY, MODEL, RerankServer
from tests.knowledge import publish


@pytest.fixture
async def app(database_url: str, tmp_path: Path, embedder: HashEmbedder) -> AsyncIterator[App]:
    settings = Settings(home=tmp_path, config=tmp_path / "signoff.toml")
    async with open_app(settings, database_url, Parts(embedder=embedder)) as opened:
        await publish(
            opened.store, embedder, "hr", "leave.md", ["Annual leave is 15 days.", "Sick leave needs a note."]
        )
        await publish(
            opened.store, embedder, "legal", "board.md", ["The board's leave."], audience=("web:board",)
        )
        yield opened


async def found(app: App, text: str, **asked: object) -> dict[str, Finding]:
    findings = await examine_question(app, Asked(text, **asked))  # type: ignore[arg-type]
    assert all(finding.ok != bool(finding.remedy) for finding in findings)
    return {finding.name: finding for finding in findings}


async def test_a_question_that_is_answered_passes(app: App) -> None:
    """Indexed, readable, first in both legs, near, in one piece, and sure enough."""
    findings = await found(app, "Annual leave is how many days?", document="leave")
    assert [name for name, finding in findings.items() if not finding.ok] == []
    assert "rank" not in findings["by words"].detail
    assert findings["by words"].detail.endswith("1")


async def test_a_document_that_is_not_there_is_said(app: App) -> None:
    """The first step fails; the others still say what they see."""
    findings = await found(app, "annual leave", document="travel.md")
    assert not findings["indexed"].ok
    assert not findings["by meaning"].ok
    assert "signoff ingest" in findings["indexed"].remedy


async def test_a_hidden_document_is_a_matter_of_audience(app: App) -> None:
    """Who may read nothing of it hears who could, not that nothing is there."""
    findings = await found(app, "leave", principals=("web:nobody",))
    assert findings["indexed"].ok
    assert not findings["readable"].ok
    assert "--as" in findings["readable"].remedy


async def test_words_that_no_passage_holds_are_said(app: App) -> None:
    """The keyword leg alone finds nothing: the dictionary is the remedy."""
    findings = await found(app, "Urlaubsanspruch")
    assert not findings["by words"].ok
    assert "[search] dictionary" in findings["by words"].remedy


async def test_an_answer_cut_in_two_is_noticed(app: App, embedder: HashEmbedder) -> None:
    """The word that the best passage lacks stands in the next one."""
    await publish(
        app.store,
        embedder,
        "it",
        "codes.md",
        ["Error forty-two of the printer means:", "the certificate expired."],
    )
    findings = await found(app, "error forty-two printer certificate")
    assert not findings["in one piece"].ok
    assert "certif" in findings["in one piece"].detail


async def test_without_a_model_the_vectors_are_said_to_be_missing(
    app: App, database_url: str, tmp_path: Path
) -> None:
    """Keywords alone: the step by meaning fails, the step by words does not."""
    settings = Settings(home=tmp_path, config=tmp_path / "signoff.toml")
    async with open_app(settings, database_url, Parts(embedder=NoEmbedder())) as bare:
        findings = await found(bare, "annual leave")
    assert not findings["by meaning"].ok
    assert findings["by words"].ok


async def test_it_is_said_in_the_readers_language(app: App) -> None:
    """The same steps in Chinese."""
    findings = await found(app, "annual leave", language="zh")
    assert list(findings) == ["已收录", "有权阅读", "按语义", "按词语", "足够相近", "没有切断", "足够把握"]


async def test_a_reranker_that_does_not_answer_is_found(
    database_url: str, tmp_path: Path, embedder: HashEmbedder
) -> None:
    """The doctor asks it for the smallest real judgement, and names the settings to check."""
    settings = Settings(home=tmp_path, config=tmp_path / "signoff.toml")
    async with RerankServer().running() as server:
        reranker = EndpointReranker(server.url, KEY, MODEL)
        async with open_app(settings, database_url, Parts(embedder=embedder, reranker=reranker)) as opened:
            assert {f.name: f.ok for f in await examine(opened)}["reranker"]
            server.status = 503
            finding = next(f for f in await examine(opened) if f.name == "reranker")
    assert not finding.ok
    assert "SIGNOFF_RERANK_BASE_URL" in finding.remedy
