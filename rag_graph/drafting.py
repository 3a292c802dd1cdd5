"""From what a writer wrote to a draft whose every mark and sentence was checked. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from rag_graph.contracts import Citation, Draft, Passage, Sentence, Written
from rag_graph.grounding import check_citations, ground, intersect_audiences, neutralise, support

__all__ = ["NO_ANSWER", "assemble", "by_tools", "cited_from", "claims", "edited"]

NO_ANSWER: Final = "NO_ANSWER"  # what the prompts tell a model to say when the passages do not answer


def assemble(written: Written, passages: Sequence[Passage], notes: Mapping[str, Any]) -> Draft | None:
    """A draft from `written`, whose marks count `passages` from 1; None where it says nothing that they support.

    `notes` gives confidence, calibrated and the round. A text without any mark gets those of the passages that
    plainly support its sentences; one that none supports is not an answer.
    """
    if not written.text.strip() or NO_ANSWER in written.text:
        return None
    cited = check_citations(neutralise(written.text).strip(), len(passages))
    if not cited.numbers:
        cited = check_citations(_attributed(cited.text, passages), len(passages))
    sources = [passages[number - 1] for number in cited.numbers]
    sentences = ground(cited.text, sources)
    if not sources or all(sentence.support == "unsupported" for sentence in sentences):
        return None
    return Draft(
        cited.text,
        written.kind,
        _citations(sources),
        sentences,
        confidence=notes.get("confidence", 0.0),
        calibrated=notes.get("calibrated", False),
        audience=intersect_audiences(source.audience for source in sources),
        collections=_distinct(source.collection for source in sources),
        labels=_distinct(label for source in sources for label in sorted(source.labels)),
        round=notes.get("round", 0) + 1,
    )


def claims(written: Written) -> bool:
    """Did the writer say something, rather than that it does not know?"""
    return bool(written.text.strip()) and NO_ANSWER not in written.text


def by_tools(
    written: Written, said: Sequence[str], readers: Sequence[str], notes: Mapping[str, Any]
) -> Draft | None:
    """A draft that stands on what tools said, and cites nothing: which day it is has no document. None unless each
    sentence that can be checked agrees with them and one of them is supported.

    `said` are the texts of calls that worked, made with the rights of `readers`, who alone may read the draft.
    """
    text = check_citations(neutralise(written.text).strip(), 0).text
    if not text or NO_ANSWER in text or not said:
        return None
    judged = [replace(sentence, support=support(sentence.text, said)) for sentence in ground(text, [])]
    told = [sentence.support for sentence in judged]
    if "unsupported" in told or not {"supported", "weak"} & set(told):
        return None
    return Draft(
        text,
        written.kind,
        sentences=tuple(judged),
        confidence=notes.get("confidence", 0.0),
        calibrated=notes.get("calibrated", False),
        audience=tuple(readers),
        round=notes.get("round", 0) + 1,
    )


def edited(draft: Draft, passages: Sequence[Passage]) -> Draft:
    """`draft` with the reviewer's text made safe, its marks and sentences checked like any other's.

    `passages` are the draft's cited ones, in its order. The audience stays: a text that no longer cites a source
    may still tell of it.
    """
    cited = check_citations(neutralise(draft.text).strip(), len(passages))
    sources = [passages[number - 1] for number in cited.numbers]
    sentences = ground(cited.text, sources)
    return replace(draft, text=cited.text, citations=_citations(sources), sentences=sentences)


def cited_from(draft: Draft, passages: Sequence[Passage]) -> Draft:
    """`draft` with its citations, in their order, pointing to `passages`: the same chunks in a later version."""
    return replace(draft, citations=_citations(passages))


def _attributed(text: str, passages: Sequence[Passage]) -> str:
    """`text` with a mark after each sentence that one of `passages` supports outright."""
    marked = text
    for sentence in ground(text, []):
        number = _supporter(sentence, passages)
        if number:
            marked = marked.replace(sentence.text, f"{sentence.text} [{number}]", 1)
    return marked


def _supporter(sentence: Sentence, passages: Sequence[Passage]) -> int:
    for number, passage in enumerate(passages, 1):
        if support(sentence.text, [passage.text]) == "supported":
            return number
    return 0


def _citations(sources: Sequence[Passage]) -> tuple[Citation, ...]:
    return tuple(
        Citation(
            number,
            source.id,
            source.document_id,
            source.version,
            source.title,
            source.heading_path,
            source.page,
            source.source,
            source.updated_at.isoformat(),
            source.content_hash,
        )
        for number, source in enumerate(sources, 1)
    )


def _distinct(values: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))
