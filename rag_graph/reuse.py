"""A signed-off answer used again: found, held against the rules, and its citations led to the passages of now."""

import unicodedata
from typing import Any

from rag_graph.contracts import Deps, Draft, Known, Question, Turn
from rag_graph.drafting import cited_from
from rag_graph.followups import needs_rewrite
from rag_graph.likeness import same
from rag_graph.policy import Refuse, Two, decide

__all__ = ["alone", "looked_up"]

RULE = "verified"  # what the run says decided

# Any turn at all: a question that would need it says too little by itself.
_ANY_TURN = (Turn("", "", ""),)


def alone(text: str) -> bool:
    """Does the question say by itself what it is about? Only such a one is signed off for others."""
    plain = unicodedata.normalize("NFKC", text).strip()
    return bool(plain) and not needs_rewrite(plain, _ANY_TURN)


async def looked_up(deps: Deps, question: Question, text: str) -> dict[str, Any]:
    """The state update that publishes the answer signed off for `text`; empty where there is none.

    `text` is the question as it can be asked alone. A rule that refuses the question refuses this answer too, and one
    that asks for two people asks for them each time: the answer may have been signed by one, under another rule.
    Rules that would hold a draft for one person do not, for a person has signed it.
    """
    if deps.shelf is None or not alone(text):
        return {}
    for known in await deps.shelf.near(text, question.principals):
        if same(text, known.question, known.sure):
            continue
        made = await _standing(deps, question, known)
        if made is None or isinstance(decide(question, made, deps.rules, text), Refuse | Two):
            continue
        return {
            "draft": made.to_json(),
            "notes": {
                "verified": {"id": known.id, "by": known.by, "at": known.at, "how": known.how},
                "rule": RULE,
                "disposition": "send",
                "confidence": made.confidence,
                "calibrated": made.calibrated,
            },
        }
    return {}


async def _standing(deps: Deps, question: Question, known: Known) -> Draft | None:
    """The answer with its citations as readers see them now; None where a source has changed or may not be read."""
    assert deps.shelf is not None
    made = Draft.from_json(known.answer)
    now = await deps.shelf.standing(known.id, question.principals)
    ids = [now.get(citation.content_hash, 0) for citation in made.citations]
    passages = await deps.retriever.passages(ids, question.principals) if ids else []
    if not now or len(passages) != len(ids):
        return None
    return cited_from(made, passages)
