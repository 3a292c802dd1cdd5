"""Use case: every review is a test. What reviewers decided, as a set in the shared evaluation format, and their audit.

    queries.jsonl   {"id", "text", "type", "answer": what was signed, "rejected": what was not, "reasons"}
    corpus.jsonl    the passages that readers see now, of the collections that were cited
    qrels.tsv       1 for a passage that a signed answer cites, 0 for one that only rejected drafts cited

Nobody is named in a set: who asked and who decided stays in the audit.
"""

import json
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from rag_graph.grounding import ground
from store import Store
from store.errors import NotFound
from store.reviews import ReviewRow
from store.runs import RunRow

__all__ = ["Case", "audit", "case", "export"]

MARK = re.compile(r"\s?\[\d+\]")
# Reasons that call for silence: right is to say that the documents do not answer it.
SILENT = ("should_not_answer",)


@dataclass(frozen=True, slots=True)
class Case:
    """One question as a test. `good` and `bad` are the content hashes of cited passages."""

    id: str
    text: str
    language: str
    answer: tuple[str, ...]
    rejected: tuple[str, ...]
    reasons: tuple[str, ...]
    kind: str  # approved | edited | rejected | unanswerable
    good: frozenset[str] = frozenset()
    bad: frozenset[str] = frozenset()
    documents: frozenset[int] = field(default_factory=frozenset)

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id, "text": self.text, "language": self.language, "type": self.kind,
            "answer": list(self.answer), "rejected": list(self.rejected), "reasons": list(self.reasons),
        }  # fmt: skip


def case(number: int, text: str, language: str, rounds: Sequence[ReviewRow]) -> Case | None:
    """From a question and its decided reviews, first round first; None where they tell nothing. Pure.

    Of a signed answer the whole text is accepted, and each of its sentences: an answer by quotation says one of them.
    """
    answer: tuple[str, ...] = ()
    rejected, reasons, kind = [], [], ""
    good: set[str] = set()
    bad: set[str] = set()
    documents: set[int] = set()
    for review in rounds:
        citations = review.draft.get("citations", ())
        hashes = {str(citation["content_hash"]) for citation in citations}
        documents |= {int(citation["document_id"]) for citation in citations}
        decision: Mapping[str, Any] = review.decision or {}
        if review.state == "rejected":
            rejected.append(_bare(str(review.draft.get("text", ""))))
            reasons.append(str(decision.get("reason", "")))
            kind, bad = kind or "rejected", bad | hashes
        elif review.state in ("approved", "edited"):
            signed = str(decision.get("text") or review.draft.get("text", ""))
            answer, kind, good = _accepted(signed), review.state, good | _used(signed, citations)
            if review.state == "edited" and review.draft.get("text"):
                rejected += (
                    [_bare(str(review.draft.get("original", "")))] if "original" in review.draft else []
                )
    if kind == "rejected" and any(reason in SILENT for reason in reasons):
        kind = "unanswerable"
    kept = tuple(filter(None, rejected))
    if not text.strip() or not kind or not (answer or kept):
        return None
    return Case(
        f"r{number}", text, language, answer, kept, tuple(reasons), kind,
        frozenset(good), frozenset(bad - good), frozenset(documents),
    )  # fmt: skip


def _bare(text: str) -> str:
    return MARK.sub("", text).strip()


def _accepted(text: str) -> tuple[str, ...]:
    pieces = [_bare(text), *(_bare(sentence.text) for sentence in ground(text, []))]
    return tuple(dict.fromkeys(filter(None, pieces)))


def _used(text: str, citations: Iterable[Mapping[str, Any]]) -> set[str]:
    """The hashes of the passages whose marks still stand in the text."""
    return {str(c["content_hash"]) for c in citations if f"[{c['number']}]" in text}


async def export(store: Store, since: datetime, folder: Path) -> int:
    """Write the set into `folder`; returns how many questions it has."""
    cases = [found async for found in _cases(store, since)]
    collections = set()
    for document in sorted({number for each in cases for number in each.documents}):
        try:
            collections.add((await store.documents.show(document)).collection)
        except NotFound:
            continue  # removed since: its passages can be found by nobody
    ids = await _corpus(store, sorted(collections), folder / "corpus.jsonl")
    _write(folder / "queries.jsonl", (each.to_json() for each in cases))
    lines = [
        f"{each.id}\t{ids[digest]}\t{grade}\n"
        for each in cases
        for grade, digests in ((1, each.good), (0, each.bad))
        for digest in sorted(digests)
        if digest in ids
    ]
    _save(folder / "qrels.tsv", "".join(lines))
    return len(cases)


async def _cases(store: Store, since: datetime) -> AsyncIterator[Case]:
    after, done = 0, set()
    while page := await store.history.decided(since, after):
        after = page[-1].id
        for review in page:
            if review.question_id in done:
                continue
            done.add(review.question_id)
            row = await store.conversations.question(review.question_id)
            rounds = [r for r in await store.reviews.for_question(row.id) if r.decided_by]
            text = _asked(rounds, row.text, await store.runs.latest(row.id))
            found = case(review.id, text, row.language, rounds)
            if found is not None:
                yield found


def _asked(rounds: Sequence[ReviewRow], text: str, execution: RunRow | None) -> str:
    """The question as it can be asked alone; a reviewer's better one where there is one."""
    better = [str((review.decision or {}).get("question", "")) for review in rounds]
    searched = [str(review.draft.get("rewritten_question", "")) for review in rounds[:1]]
    return next(
        filter(None, [*better[::-1], *searched, execution.rewritten_question if execution else ""]), text
    )


async def _corpus(store: Store, collections: Sequence[str], path: Path) -> dict[str, str]:
    """Write the passages of these collections; their ids by content hash."""
    ids: dict[str, str] = {}
    rows: list[dict[str, Any]] = []
    for collection in collections:
        for document in await store.documents.list(collection):
            name = f"{collection}/{document.source}"
            for chunk in await store.verified.now(document.id):
                identity = f"{name}#{len(rows)}"
                ids.setdefault(chunk.content_hash, identity)
                rows.append({"id": identity, "doc": name, "title": document.title, "text": chunk.text})
    _write(path, rows)
    return ids


def _write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    _save(path, text)


def _save(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


async def audit(store: Store, since: datetime) -> AsyncIterator[dict[str, Any]]:
    """Every line of the audit from that moment on, in order: who did what, when, on which draft of which question."""
    after = 0
    while page := await store.history.audit(since, after):
        after = page[-1][1].id
        for question_id, line in page:
            yield {
                "id": line.id, "at": line.at.isoformat(), "actor": line.actor, "action": line.action,
                "review": line.review_id, "question": question_id, "draft": line.version_hash,
                "detail": dict(line.detail),
            }  # fmt: skip
