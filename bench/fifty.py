"""Fifty questions on the sample handbook: the old chain and ours, side by side, in one run and without a model.

    python -m bench.fifty [--rounds N] [--model]

Ours is the product as it starts on a new machine: the embedded Postgres, `open_app` with default settings, the
handbook uploaded as `signoff up` does, each question through the question graph. Only review rules are absent, so
that no answer waits for a person. Both chains write with the same extractive writer: what differs is what was
found, and whether to answer at all. With --model both write with the endpoint that SIGNOFF_LLM_BASE_URL, _API_KEY and
_MODEL name, which also judges what is right, besides the facts that are looked for.

Writes bench/results/fifty.json (fifty-model.json) and the table in docs/benchmarks.md.
"""

import argparse
import asyncio
import json
import os
import re
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bench.old_chain import OVERLAP, SIZE, TOP, Found, OldChain, cut, read
from bench.provenance import folder_digest, provenance
from bench.question_set import FOLDER, HANDBOOK, ROOT, Item, load
from bench.scores import Judged, Reply, halves, judge, percentiles, summarise, tuned
from bench.tables import table, write_section
from bot.app import App, make_writer, open_app
from bot.cli.knowledge import upload_handbook
from bot.settings import Settings, load_settings
from rag_graph.contracts import Material, Passage, Question, Turn, Writer
from rag_graph.drafting import NO_ANSWER
from rag_graph.models import ModelWriter
from store.database import migrate
from store.embedded import EmbeddedPostgres

RESULTS = ROOT / "bench/results"
PAGE = ROOT / "docs/benchmarks.md"
WINDOW = SIZE * TOP  # characters, whatever a chain shows: what a prompt of the same length would hold
READERS = ("everyone", "cli:bench")


def question(item: Item, run: str) -> Question:
    """The question as a private terminal conversation asks it; ids differ between runs, so nothing is resumed."""
    return Question(
        id=f"{run}-{item.id}",
        conversation_id=f"cli:bench:{run}-{item.id}",
        text=item.text,
        language=item.language,
        asker="cli:bench",
        principals=READERS,
        private=True,
    )


def turns(item: Item) -> list[Turn]:
    """The earlier exchanges; every history of the set is pairs of a question and its answer."""
    texts = [text for _, text in item.history]
    pairs = zip(texts[::2], texts[1::2], strict=True)
    return [Turn(f"{item.id}-{place}", asked, answer) for place, (asked, answer) in enumerate(pairs)]


# --- the old chain ----------------------------------------------------------------------------------------------


async def ask_old(chain: OldChain, item: Item, writer: Writer) -> Reply:
    """Retrieve with the pasted history, write from the four chunks, always answer; a model may say that it cannot."""
    started = time.perf_counter()
    found = chain.retrieve(item.text, item.history)
    material = Material(tuple(_passages(found)))
    written = await writer.draft(question(item, "old"), turns(item), "", material)
    # Ours says that it does not know where nothing can be quoted; this chain hands out its nearest chunk.
    text = written.text or f"{found.chunks[0].text} [1]"
    spent = (time.perf_counter() - started) * 1_000
    sources = tuple(chunk.source for chunk in found.chunks)
    marked = {int(number) for number in re.findall(r"\[(\d+)\]", text)}
    return Reply(
        found=sources,
        window="\n".join(chunk.text for chunk in found.chunks)[:WINDOW],
        cited=tuple(source for number, source in enumerate(sources, 1) if number in marked),
        text=text,
        refused=NO_ANSWER in text,
        ms=spent,
        score=found.best,
        split={"embed": found.embed_ms, "search": found.search_ms},
        tokens=written.tokens,
    )


def _passages(found: Found) -> list[Passage]:
    """The chunks as the writer takes them. They have no headings: the old chain does not know any."""
    now = datetime.now(UTC)
    return [
        Passage(
            id=place,
            document_id=place,
            version_id=place,
            version=1,
            collection=chunk.source.split("/")[0],
            title=chunk.source,
            source=chunk.source,
            heading_path=(),
            page=None,
            text=chunk.text,
            content_hash=str(place),
            language="zh" if ".zh." in chunk.source else "en",
            audience=frozenset({"everyone"}),
            labels=frozenset(),
            updated_at=now,
            score=score,
            similarity=score,
        )
        for place, (chunk, score) in enumerate(zip(found.chunks, found.scores, strict=True), 1)
    ]


def with_refusal(items: Sequence[Item], replies: Sequence[Reply]) -> tuple[float, list[Reply]]:
    """The old chain with a cosine threshold, tuned on half of the questions to get most of that half right."""
    chosen, _ = halves(items)

    def right(place: int, refused: bool) -> bool:
        return judge(items[chosen[place]], replace(replies[chosen[place]], refused=refused)).right

    threshold = tuned([replies[place].score for place in chosen], right)
    return threshold, [replace(reply, refused=reply.refused or reply.score < threshold) for reply in replies]


# --- ours -------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def product(model: Mapping[str, Any]) -> AsyncIterator[tuple[App, dict[str, Any]]]:
    """The application over a new embedded database that holds the handbook, and how the upload went. `model` are the
    settings of a language model, if there is to be one."""
    with tempfile.TemporaryDirectory(prefix="signoff-bench-", ignore_cleanup_errors=True) as folder:
        home = Path(folder) / "home"
        Path(folder).chmod(0o755)  # started by root, the server runs as nobody, who must get in
        server = EmbeddedPostgres(home)
        url = await asyncio.to_thread(server.start)
        try:
            await migrate(url)
            async with open_app(Settings(home=home, config=home / "signoff.toml", **model), url) as app:
                started = time.perf_counter()
                uploaded = await upload_handbook(app)
                seconds = time.perf_counter() - started
                failed = [result.name for result in uploaded if result.failed]
                if failed:
                    raise SystemExit(f"Not ingested: {', '.join(failed)}")
                await app.warm_up()
                chunks = sum(result.version.chunk_count for result in uploaded if result.version)
                yield app, {"documents": len(uploaded), "chunks": chunks, "seconds": round(seconds, 1)}
        finally:
            await asyncio.to_thread(server.stop)


async def ask_ours(app: App, item: Item, run: str) -> Reply:
    """One question through the question graph, from a running process."""
    started = time.perf_counter()
    outcome = await app.graphs.advance(question(item, run), history=(turns(item), ""))
    spent = (time.perf_counter() - started) * 1_000
    passages = await app.store.search.passages(outcome.retrieved, READERS)
    draft = outcome.draft
    return Reply(
        found=tuple(passage.source for passage in passages),
        window="\n".join(passage.text for passage in passages)[:WINDOW],
        cited=tuple(citation.source for citation in draft.citations) if draft else (),
        text=draft.text if draft else "",
        refused=outcome.status in ("declined", "clarified"),
        ms=spent,
        score=outcome.confidence,
        split=dict(outcome.timings),
        searched=outcome.searched,
        tokens=outcome.tokens,
    )


async def judged_by(writer: Writer, items: Sequence[Item], replies: Sequence[Reply]) -> list[Reply]:
    """With what a model says of each answer to a question that the handbook answers, where there is a model."""
    if not isinstance(writer, ModelWriter):
        return list(replies)
    told = []
    for item, reply in zip(items, replies, strict=True):
        right = None
        if item.kind != "absent":
            facts = "; ".join(group[0] for group in item.facts)
            right = not reply.refused and await writer.judge(item.text, (facts,), reply.text)
        told.append(replace(reply, told_right=right))
    return told


# --- the run ----------------------------------------------------------------------------------------------------


async def run(rounds: int, model: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that is written to fifty.json; `model` are the settings of a language model, if any."""
    items, load_before = load(), os.getloadavg()
    writer = make_writer(Settings(home=ROOT, config=ROOT / "signoff.toml", **model))
    systems: dict[str, list[Reply]] = {}
    extra: dict[str, Any] = {}
    latencies: dict[str, list[float]] = {}
    for name, separator in (("old", ""), ("old_paragraphs", "\n\n")):
        chain = OldChain(cut(read(HANDBOOK), separator))
        asked = [[await ask_old(chain, item, writer) for item in items] for _ in range(rounds)]
        systems[name] = await judged_by(writer, items, asked[0])
        latencies[name] = [reply.ms for replies in asked for reply in replies]
        extra[name] = {"chunks": len(chain.chunks)}
        refusing = f"{name}_threshold"
        threshold, systems[refusing] = with_refusal(items, systems[name])
        latencies[refusing], extra[refusing] = latencies[name], {"threshold": round(threshold, 4)}
    async with product(model) as (app, uploaded):
        asked = [[await ask_ours(app, item, f"r{number}") for item in items] for number in range(rounds)]
        limits = asdict(app.graphs.deps.limits)
        settings = app.settings.model_dump(mode="json", include={"search", "ingest"})
        embedder = app.admin.embedder.model
    systems["ours"] = await judged_by(writer, items, asked[0])
    if isinstance(writer, ModelWriter):
        await writer.close()
    latencies["ours"] = [reply.ms for replies in asked for reply in replies]
    extra["ours"] = {
        **uploaded,
        "same_answer_every_round": sum(
            len({(reply.text, reply.cited) for reply in same}) == 1 for same in zip(*asked, strict=True)
        ),
        "split_ms": _split(asked),
    }
    config = {
        "settings": settings,
        "limits": limits,
        "embedding": embedder,
        "old_chain": {"size": SIZE, "overlap": OVERLAP, "top": TOP},
        "handbook": folder_digest(HANDBOOK),
        "questions": folder_digest(FOLDER),
        "rounds": rounds,
        "model": model["llm"].model if model else None,
    }
    return {
        "set": "handbook",
        "load_average": [round(load_before[0], 1), round(os.getloadavg()[0], 1)],
        **provenance(f"python -m bench.fifty --rounds {rounds}{' --model' * bool(model)}", config),
        "systems": {
            name: {**extra[name], **_report(items, replies, latencies[name])}
            for name, replies in systems.items()
        },
    }


def _split(rounds: Sequence[Sequence[Reply]]) -> dict[str, dict[str, float]]:
    """Percentiles of each step that the product times itself, over the questions that went through it."""
    steps: dict[str, list[float]] = {}
    for replies in rounds:
        for reply in replies:
            for step, spent in reply.split.items():
                steps.setdefault(step, []).append(spent)
    return {step: percentiles(spent) for step, spent in sorted(steps.items()) if len(spent) > 1}


def _report(items: Sequence[Item], replies: Sequence[Reply], spent: Sequence[float]) -> dict[str, Any]:
    judged = [judge(item, reply) for item, reply in zip(items, replies, strict=True)]
    _, held_out = halves(items)
    return {
        **summarise(judged, spent),
        "tokens": {
            name: round(sum(reply.tokens.get(name, 0) for reply in replies) / len(replies), 1)
            for name in ("prompt", "completion")
        },
        "held_out": summarise([judged[place] for place in held_out], spent)["measures"],
        "questions": [_row(j, reply) for j, reply in zip(judged, replies, strict=True)],
    }


def _row(judged: Judged, reply: Reply) -> dict[str, Any]:
    return {
        **asdict(judged),
        "found": list(reply.found[:10]),
        "cites": sorted(set(reply.cited)),
        "score": round(reply.score, 4),
        "searched": list(reply.searched),
        "text": reply.text,
        "ms": round(reply.ms, 1),
    }


COLUMNS = {
    "old": "old chain",
    "old_threshold": "old chain, may refuse",
    "old_paragraphs": "old chain by paragraphs",
    "old_paragraphs_threshold": "by paragraphs, may refuse",
    "ours": "Signoff",
}
ROWS = {
    "first_hit": "right document first",
    "answer_in_window": "answer stands in the first 2,000 characters found",
    "right_document_cited": "right document cited",
    "all_documents_cited": "all needed documents cited",
    "only_right_documents_cited": "none but right documents cited",
    "answer_stated": "every fact stated in the answer",
    "told_right": "right by the judge",
    "right_refusal": "right refusal (not in the handbook)",
    "false_refusal": "wrong refusal (in the handbook)",
    "right": "**right altogether**",
}
KINDS = {
    "single": "of these, one fact",
    "several": "of these, several facts",
    "absent": "of these, not in the handbook",
}


def _page(result: Mapping[str, Any]) -> str:
    systems = result["systems"]
    ours, machine = systems["ours"], result["machine"]
    held_out = ours["held_out"]["right"]["n"]
    named, busy = result["config"]["model"], result["load_average"]
    written = f"written and judged by {named}" if named else "no language model"
    commit = result["commit"][:7] + (" with changes" if result["modified"] else "")
    return "\n\n".join(
        [
            "## Fifty questions on the sample handbook",
            f"`{result['command']}`, {result['date'][:10]}, {machine['processor']}, {machine['cores']} cores, "
            f"Python {machine['python']}, commit {commit}, configuration `{result['config_hash']}`, "
            f"{written}; load average {busy[0]} at the start, {busy[1]} at the end, which the milliseconds depend on. "
            "Every question with both replies is in `bench/results/`; what counts as "
            "right is in [the set's README](../bench/sets/handbook/README.md).",
            "The old chain cuts Markdown and PDF text at 500 characters with 50 overlap, keeps it in FAISS, takes the "
            "four nearest chunks to the history and the question as one text, and always answers. It has the same "
            "embedding model (multilingual-e5-small), the same PDF extraction and the same extractive writer as "
            "Signoff. In its favour it is measured again with paragraphs kept together, and with a cosine threshold "
            f"for refusing ({systems['old_threshold']['threshold']:.3f} and "
            f"{systems['old_paragraphs_threshold']['threshold']:.3f}), tuned on every other question of each kind. "
            "Signoff runs with its defaults and without review rules.",
            table(
                ["all 50 questions", *COLUMNS.values()],
                _rows(systems, lambda s: {**s["measures"], **s["right_by_kind"]}, _latency, KINDS),
            ),
            f"The {held_out} questions that no threshold was tuned on:",
            table(
                [f"{held_out} held-out questions", *COLUMNS.values()], _rows(systems, lambda s: s["held_out"])
            ),
            f"Signoff's {ours['documents']} documents became {ours['chunks']} passages in {ours['seconds']} s. "
            f"{ours['same_answer_every_round']} of 50 questions had the same answer with the same citations in each "
            f"of {result['config']['rounds']} rounds. Its steps in milliseconds (p50 / p95): "
            + ", ".join(f"{step} {spent['p50']} / {spent['p95']}" for step, spent in ours["split_ms"].items())
            + ".",
        ]
    )


def _rows(
    systems: Mapping[str, Any],
    measures: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    last: Callable[[Mapping[str, Any]], list[list[str]]] = lambda systems: [],
    more: Mapping[str, str] = MappingProxyType({}),
) -> list[list[str]]:
    def cell(name: str, measure: str) -> str:
        counted = measures(systems[name])[measure]
        return f"{counted['hits']}/{counted['n']} ({counted['share']:.0%})"

    rows = [
        [label, *(cell(name, measure) for name in COLUMNS)]
        for measure, label in {**ROWS, **more}.items()
        if measures(systems["ours"])[measure]["n"]
    ]
    return [*rows, *last(systems)]


def _latency(systems: Mapping[str, Any]) -> list[list[str]]:
    tokens = [
        [f"{name} tokens", *(f"{systems[system]['tokens'][name]:.0f}" for system in COLUMNS)]
        for name in ("prompt", "completion")
        if systems["ours"]["tokens"][name]
    ]
    return tokens + [
        [f"question to answer, {cut}, ms", *(f"{systems[name]['latency_ms'][cut]:.0f}" for name in COLUMNS)]
        for cut in ("p50", "p95")
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="how often each question is asked; default 3")
    parser.add_argument(
        "--model", action="store_true", help="write and judge with the endpoint of SIGNOFF_LLM_*"
    )
    given = parser.parse_args()
    settings = load_settings() if given.model else None
    if settings is not None and settings.llm is None:
        raise SystemExit("--model needs SIGNOFF_LLM_BASE_URL, SIGNOFF_LLM_API_KEY and SIGNOFF_LLM_MODEL.")
    model = {"llm": settings.llm, "model": settings.model} if settings else {}
    result = asyncio.run(run(given.rounds, model))
    name = "fifty-model" if given.model else "fifty"
    RESULTS.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result, ensure_ascii=False, indent=1) + "\n"
    (RESULTS / f"{name}.json").write_text(text, encoding="utf-8")
    print(write_section(PAGE, name, _page(result)))


if __name__ == "__main__":
    main()
