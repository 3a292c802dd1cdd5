"""Neighbouring chunks of one document as one passage. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from store.passages import Passage

__all__ = ["joined"]

OVERLAP = 400  # characters that two neighbours may share at most


def joined(passages: Sequence[Passage], most: int) -> list[Passage]:
    """`passages` in their order, with those that follow one another in the same version made one, up to `most`
    characters of text.

    A joined passage stands where its best part stood, under that part's id, hash and scores; `parts` are the ids of
    all its chunks in document order, for whoever cites one of them. What two chunks share is said once.
    """
    groups: list[list[Passage]] = []
    for passage in passages:
        near = next((group for group in groups if _touches(group, passage, most)), None)
        if near is None:
            groups.append([passage])
        else:
            near.append(passage)
    return [_one(group) for group in groups]


def _touches(group: Sequence[Passage], passage: Passage, most: int) -> bool:
    if passage.version_id != group[0].version_id:
        return False
    beside = any(abs(passage.ordinal - one.ordinal) == 1 for one in group)
    return beside and len(passage.text) + sum(len(one.text) for one in group) <= most


def _one(group: Sequence[Passage]) -> Passage:
    if len(group) == 1:
        return group[0]
    ordered = sorted(group, key=lambda one: one.ordinal)
    text = ordered[0].text
    for one in ordered[1:]:
        text = _followed(text, one.text)
    return replace(group[0], text=text, page=ordered[0].page, parts=tuple(one.id for one in ordered))


def _followed(before: str, after: str) -> str:
    for shared in range(min(OVERLAP, len(before), len(after)), 0, -1):
        if before.endswith(after[:shared]):
            return before + after[shared:]
    return f"{before}\n{after}"
