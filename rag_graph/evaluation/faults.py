"""What can go wrong with a question, in words: which side failed, what that means, and what to do about it. Pure."""

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["FAULTS", "TROUBLES", "notes"]

#: What can be wrong with a question: the side that failed, what that means, and what to do about it.
FAULTS: Final[Mapping[str, tuple[str, str, str]]] = {
    "not indexed": (
        "retrieval",
        "The document is not in the knowledge base, or the one who asks may not read it.",
        "`signoff documents list`: upload it, or widen its audience.",
    ),
    "not retrieved": (
        "retrieval",
        "The search did not bring the document.",
        "`signoff doctor --question` walks through the reasons; add house words to [search] dictionary.",
    ),
    "not in the passages": (
        "retrieval",
        "The search brought no passage that holds the answer: another one, or one that was cut in two.",
        "`signoff eval chunking` tries other sizes and overlaps on your documents.",
    ),
    "ranked too low": (
        "retrieval",
        "A passage with the answer was found, and stood behind those that the draft reads.",
        "A reranker (SIGNOFF_RERANK_BASE_URL), or a larger [search] kept at more tokens.",
    ),
    "refused": (
        "drafting",
        "What answers it was found, and the bot said that it does not know.",
        "`signoff eval abstain` finds the line; [search] abstain_below and retry_below set it.",
    ),
    "not said": (
        "drafting",
        "The passage with the answer was at hand, and the answer says something else.",
        "`signoff eval grounding`; a better model; a rule with unsupported = true holds such drafts.",
    ),
    "not cited": (
        "drafting",
        "The document was found, and the answer points to others.",
        "Look whether two documents say the same or disagree; take the outdated one out.",
    ),
    "without its tool": (
        "tool",
        "It needs a tool that was not called, or not rightly; without a language model none ever is.",
        "The troubles with tools below say what to do; SIGNOFF_LLM_BASE_URL and SIGNOFF_LLM_MODEL set a model.",
    ),
    "not refused": (
        "drafting",
        "The documents do not answer it, and the bot answered all the same.",
        "`signoff eval abstain` finds the line; a rule with confidence_below sends doubtful ones to a person.",
    ),
}  # fmt: skip

#: The three forms of trouble with tools, and a tool that no rule offered (MISSION B19).
TROUBLES: Final[Mapping[str, tuple[str, str]]] = {
    "missing": (
        "not called",
        "Its “use when” does not sound like the question: add an example from real ones, offer fewer tools at once.",
    ),
    "not offered": (
        "not offered",
        "The rule that offers it does not know this wording; it is in rag_graph/tools/router.py.",
    ),
    "needless": (
        "called for nothing",
        "Its scope is too wide: narrow “use when”, say when not to use it, or merge it with its neighbour.",
    ),
    "wrong": (
        "called wrongly",
        "A parameter is not explained: give its type, its range and an example value.",
    ),
}


def notes(details: Mapping[str, Any]) -> list[str]:
    """What a reader of the figures has to know about how they came about."""
    told = []
    if details.get("guessed"):
        told.append(
            f"The kind of {details['guessed']} questions was guessed: by the rule that offers tools, and by how many "
            "things they ask. Write the column “kind” to measure that rule itself."
        )
    if lines := details.get("unjudged"):
        told.append(f"Nothing to judge by (no facts, no document) on line {', '.join(map(str, lines))}.")
    if unused := details.get("unused"):
        told.append(f"Columns that were not used: {', '.join(unused)}.")
    for part, times in details.get("without", {}).items():
        told.append(f"{times} questions went without: {part}. `signoff doctor` says why.")
    return told
