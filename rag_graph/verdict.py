"""Whether an answer failed at the documents, at search or at the draft, told by how far a passage came. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["FAULTS", "ORDER", "Facts", "Fault", "Kind", "Match", "Verdict", "judge"]

Kind = Literal[
    "cited", "unused", "unread", "doubted", "not_retrieved", "not_searched", "not_readable", "later", "unfinished",
    "failed", "not_in_it", "not_indexed",
]  # fmt: skip
Fault = Literal["cited", "not_cited", "not_retrieved", "not_readable", "unfinished", "not_indexed"]

# How far each got, furthest first; and what an operator calls it. Each kind has a remedy of its own.
FAULTS: Final[Mapping[Kind, Fault]] = {
    "cited": "cited",
    "unused": "not_cited",  # the draft read it and cites others
    "unread": "not_cited",  # found, and not among those that the draft read
    "doubted": "not_cited",  # found, and search was too unsure for a draft
    "not_retrieved": "not_retrieved",
    "not_searched": "not_retrieved",  # small talk, a signed answer used again, a run that failed before
    "not_readable": "not_readable",
    "later": "not_indexed",  # it came in after the question
    "unfinished": "unfinished",
    "failed": "unfinished",
    "not_in_it": "not_indexed",  # the document is there, the words are not in it
    "not_indexed": "not_indexed",
}
ORDER: Final[Sequence[Kind]] = tuple(FAULTS)


@dataclass(frozen=True, slots=True)
class Match:
    """A document that should have answered.

    `passages` are the ids of those of its passages that would do: all, or those with the words that were looked for;
    none where it does not have them. `state` is its newest version's (pending, converting, embedding, live, failed,
    retired), `error` and `detail` what its reading failed with. `live`: readers see a version of it; `there`: that
    has one of those passages. `readable`: readers of this question may see it. `later`: what would do came in after the
    question.
    """

    document_id: int
    title: str
    passages: frozenset[int] = frozenset()
    state: str = "live"
    error: str = ""
    detail: str = ""
    live: bool = True
    there: bool = True
    readable: bool = True
    later: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """What a run did. `retrieved` are passage ids, best first; `read` those that the draft was given; `doubted`: it
    declined because search was less sure than the line."""

    retrieved: tuple[int, ...] = ()
    read: frozenset[int] = frozenset()
    cited: frozenset[int] = frozenset()
    searched: bool = True
    doubted: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """`match` is None where no document is like the one that was looked for; `place` is the passage's among those
    retrieved, from 1, 0 where it is not among them."""

    kind: Kind
    match: Match | None = None
    place: int = 0

    @property
    def fault(self) -> Fault:
        return FAULTS[self.kind]


def judge(facts: Facts, matches: Sequence[Match]) -> list[Verdict]:
    """One verdict for each match, the one that got furthest first; "not_indexed" alone where there is none."""
    found = [_of(match, facts) for match in matches]
    return sorted(found, key=lambda verdict: (ORDER.index(verdict.kind), verdict.place)) or [
        Verdict("not_indexed")
    ]


def _of(match: Match, facts: Facts) -> Verdict:
    places = [place for place, passage in enumerate(facts.retrieved, 1) if passage in match.passages]
    place = places[0] if places else 0
    if match.passages & facts.cited:
        return Verdict("cited", match, place)
    if places:
        return Verdict(_retrieved(match, facts), match, place)
    if not match.live or not match.there:
        return Verdict(_missing(match), match)
    if match.later:
        return Verdict("later", match)
    if not match.readable:
        return Verdict("not_readable", match)
    return Verdict("not_retrieved" if facts.searched else "not_searched", match)


def _retrieved(match: Match, facts: Facts) -> Kind:
    if facts.doubted:
        return "doubted"
    return "unused" if match.passages & facts.read else "unread"


def _missing(match: Match) -> Kind:
    if match.state == "failed":
        return "failed"
    if match.state in ("pending", "converting", "embedding"):
        return "unfinished"
    return "not_in_it" if match.live else "not_indexed"
