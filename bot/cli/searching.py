"""`signoff search`: what retrieval finds, and why each passage stands where it stands."""

from dataclasses import asdict
from typing import Annotated

import typer

from bot.cli.session import Home, Json, dump, opened, run
from store.passages import Passage

SHOWN = 240  # characters of a passage


def search(
    text: str,
    home: Home = None,
    principals: Annotated[list[str] | None, typer.Option("--as", help="Who searches; repeatable.")] = None,
    k: Annotated[int, typer.Option("--k", help="How many passages.", min=1)] = 5,
    as_json: Json = False,
) -> None:
    """Search alone, with each leg's rank: what retrieval finds before anybody drafts."""

    async def work() -> None:
        async with opened(home) as app:
            result = await app.store.search.search(text, principals or ["everyone"], top_k=k)
        if as_json:
            dump({**asdict(result), "passages": [asdict(passage) for passage in result.passages]})
            return
        for place, passage in enumerate(result.passages, 1):
            typer.echo(_said(place, passage) + "\n")
        if not result.passages:
            typer.echo("Nothing was found.")
        if result.degraded:
            typer.echo(f"Without {', '.join(result.degraded)}: `signoff doctor` says why.", err=True)
        kind = "calibrated" if result.calibrated else "uncalibrated"
        took = ", ".join(f"{step} {milliseconds:.0f} ms" for step, milliseconds in result.timings.items())
        typer.echo(f"confidence {result.confidence:.2f} ({kind}); {took}")

    run(work())


def _said(place: int, passage: Passage) -> str:
    """A passage in a few lines that fit any terminal: where it is, why it won, each leg's rank, its beginning."""
    where = " › ".join([passage.title, *passage.heading_path]) + (
        f", p. {passage.page}" if passage.page else ""
    )
    text = " ".join(passage.text.split())
    return "\n   ".join(
        [
            f"{place}. {where}  [{passage.collection}: {passage.source}]",
            f"{passage.score:.4f} = {_why(passage)}",
            ", ".join(_legs(passage)),
            text[:SHOWN] + ("…" if len(text) > SHOWN else ""),
        ]
    )


def _legs(passage: Passage) -> list[str]:
    vector, keyword = passage.vector_rank, passage.keyword_rank
    similar = "" if passage.similarity is None else f" (cosine {passage.similarity:.3f})"
    return [
        f"vectors: {vector or 'not found'}{similar}",
        f"keywords: {keyword or 'not found'}"
        + ("" if passage.bm25 is None else f" (BM25 {passage.bm25:.1f})"),
    ]


def _why(passage: Passage) -> str:
    """What put it there, the most telling first: each leg's part of the score, or the reranker's judgement."""
    told = sorted(passage.shares.items(), key=lambda share: -share[1])
    parts = [f"{name} {value / passage.score:.0%}" for name, value in told if value and passage.score]
    judged = [] if passage.reranked is None else [f"reranker {passage.reranked:.3g}"]
    return ", ".join(judged + parts)
