"""The parts of a report that show single questions: those that went wrong, those that changed, and all of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from bot.report.page import Case, Section, Table, Tone
from rag_graph.evaluation.faults import FAULTS, TROUBLES

__all__ = ["changed", "sections"]

Row = Mapping[str, Any]

MOST = 10  # retrieved passages that are shown of a question


def sections(details: Row) -> list[Section]:
    """Where it went wrong, fault by fault with its remedy; what happened with tools; and every question in a line."""
    rows = details["questions"]
    wrong = [
        Section(_title(side, fault, found), [meaning], remedy, cases=[_case(row) for row in found], level=3)
        for fault, (side, meaning, remedy) in FAULTS.items()
        if (found := [row for row in rows if row["fault"] == fault])
    ]
    tools = [
        Section(_title("tool", told, found), hint=remedy, cases=[_tool_case(row) for row in found], level=3)
        for trouble, (told, remedy) in TROUBLES.items()
        if (found := [row for row in rows if trouble in row["tool_troubles"]])
    ]
    return [
        Section(
            "Where it went wrong", [] if wrong else ["Nothing did, of what the questions can be judged by."]
        ),
        *wrong,
        *([Section("Tools"), *tools] if tools else []),
        Section("Every question", tables=[_all(rows)]),
    ]


def _title(side: str, what: str, found: Sequence[Row]) -> str:
    return f"{side.capitalize()}: {what} ({len(found)})"


def _case(row: Row) -> Case:
    lines: list[tuple[str, str | Sequence[tuple[str, Tone]]]] = []
    if row["facts"]:
        lines.append(("Expected", _groups(row["facts"])))
    if row["documents"]:
        lines.append(("In", _groups(row["documents"])))
    if row["searched"] and row["searched"] != [row["text"]]:
        lines.append(("Searched", "\n".join(row["searched"])))
    lines.append(("Retrieved", _passages(row["retrieved"][:MOST]) or "nothing"))
    lines.append(("Cited", _passages(row["cited"]) or "nothing"))
    lines.append(("Answer", row["answer"] or f"({row['status']})"))
    chips: list[tuple[str, Tone]] = [(row["kind"], "plain"), (row["status"], "plain")]
    if row["place"]:
        chips.append((f"right document at place {row['place']}", "plain"))
    return Case(f"{row['text']} ", chips, [("Line", str(row["line"])), *lines])


def _tool_case(row: Row) -> Case:
    calls = [_called(call) for call in row["tools"]]
    return Case(
        f"{row['text']} ",
        [(row["kind"], "plain")],
        [
            ("Line", str(row["line"])),
            ("Called", calls or "nothing"),
            ("Answer", row["answer"] or f"({row['status']})"),
        ],
    )


def _called(call: Row) -> tuple[str, Tone]:
    said = f": {call['said']}" if call.get("said") else ""
    return f"{call['name']} {call['arguments']}{said}", "bad" if call["error"] else "plain"


def _groups(groups: Sequence[Sequence[str]]) -> str:
    return "; ".join(" or ".join(group) for group in groups)


def _passages(passages: Sequence[Row]) -> list[tuple[str, Tone]]:
    return [
        (" › ".join(filter(None, (one["document"], one["heading"]))), "good" if one["right"] else "plain")
        for one in passages
    ]


def changed(changes: Sequence[Row]) -> list[Table]:
    """The questions that became better or worse; none where none did."""
    if not changes:
        return []
    rows: list[list[str | tuple[str, Tone]]] = [
        [
            (one["became"], "good" if one["became"] == "better" else "bad"),
            str(one["line"]), one["kind"], one["text"], one["before"] or "right", one["after"] or "right",
        ]
        for one in changes
    ]  # fmt: skip
    return [
        Table(["", "line", "kind", "question", "before", "after"], rows, "Questions that changed", words=True)
    ]


def _all(rows: Sequence[Row]) -> Table:
    told: list[list[str | tuple[str, Tone]]] = [
        [
            str(row["line"]), row["kind"], row["text"], _mark(row["right"]),
            _place(row),
            f"{row['ms']['whole']:.0f}", row["fault"] or "–",
        ]
        for row in rows
    ]  # fmt: skip
    head = ["line", "kind", "question", "right", "right document at", "ms", "what went wrong"]
    return Table(head, told, words=True)


def _place(row: Row) -> str | tuple[str, Tone]:
    if row["place"]:
        return str(row["place"])
    return ("not found", "bad") if row["documents"] else "–"


def _mark(right: bool | None) -> str | tuple[str, Tone]:
    if right is None:
        return "–"
    return ("yes", "good") if right else ("no", "bad")
