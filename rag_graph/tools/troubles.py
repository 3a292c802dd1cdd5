"""What went wrong with tools in a run, told apart: each of the three has a remedy of its own (MISSION B19). Pure.

"wrong": called in a way that could not be run; better parameter descriptions. "needless": what it found was not used;
a narrower use-when. "missing": offered, not called, and the question was not answered; a clearer use-when.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rag_graph.contracts import Draft
from rag_graph.wording import meant, said

__all__ = ["told"]

WRONG: Final = ("invalid", "unknown")


def told(
    rows: Sequence[Mapping[str, Any]], offered: Sequence[str], draft: Draft
) -> tuple[Mapping[str, Any], ...]:
    """`rows` of QuestionState.tool_results, each with its `trouble` ("" for none); where none was called and should
    have been, one row without a name that says what was offered."""
    if not rows:
        missed = bool(offered) and draft.kind == "declined"
        return ({"name": "", "trouble": "missing", "offered": list(offered)},) if missed else ()
    return tuple({**row, "trouble": _trouble(row, draft)} for row in rows)


def _trouble(row: Mapping[str, Any], draft: Draft) -> str:
    if row["error"]:
        return "wrong" if row["error"] in WRONG else ""
    if draft.kind == "declined":
        return ""
    found = set(row["passages"])
    if found:
        return "" if found & {citation.passage_id for citation in draft.citations} else "needless"
    return "" if _used(str(row["text"]), draft.text) else "needless"


def _used(text: str, answer: str) -> bool:
    """Does the answer have a number or a word of what the tool said?"""
    mine = {quantity.value for quantity in said(answer)}
    return bool(mine & {quantity.value for quantity in said(text)}) or bool(meant(text) & meant(answer))
