"""The report of `signoff eval`: figures, pictures, what was compared, and each question that went wrong."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from bot.report import questions
from bot.report.page import Page, Section, Table, about, picture, rendered
from rag_graph.evaluation.drawing import Axis, bars, lines
from rag_graph.evaluation.faults import notes

__all__ = ["evaluation_page"]

Row = Mapping[str, Any]
Told = Sequence[tuple[str, Sequence[Row]]]

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
PARTS = (("whole", ""), ("retrieval", "retrieval "), ("model", "model "))


def evaluation_page(command: str, told: Told) -> str:
    """One HTML file of one variant or two: each is its name, and its rows as `Result.to_json` has them."""
    rows = told[-1][1]
    hashes = dict.fromkeys(str(row["config_hash"]) for _, each in told for row in each)
    facts = [*about(command), ("Configuration", ", ".join(hashes))]
    if len(told) > 1:
        facts.append(("Compared", " with ".join(_variant(name) for name, _ in told)))
    own = [row for row in rows if "questions" in row.get("details", {})]
    sections = [part for row in own for part in _own(row, rows, told)]
    sections += _others([(name, [row for row in each if not _is_own(row)]) for name, each in told])
    return rendered(Page(command, _lead(rows, own), facts, sections))


def _is_own(row: Row) -> bool:
    return "questions" in row.get("details", {}) or "kind" in row.get("details", {})


def _lead(rows: Sequence[Row], own: Sequence[Row]) -> str:
    if not own:
        return f"{len(rows)} rows; shares are between 0 and 1."
    right = [one["right"] for row in own for one in row["details"]["questions"] if one["right"] is not None]
    asked = sum(row["n"] for row in own)
    return f"{sum(right)} of {len(right)} questions that say what is right were right; {asked} were asked."


# --- people's own questions -------------------------------------------------------------------------------------------


def _own(row: Row, rows: Sequence[Row], told: Told) -> list[Section]:
    kinds = [one for one in rows if one["set"].startswith(f"{row['set']}, ") and "kind" in one["details"]]
    details = row["details"]
    model = "answers by a language model" if details["model"] else (
        "no language model: answers are quotations, and no tool is called"
    )  # fmt: skip
    first = Section(
        f"{row['set']}: by kind",
        texts=[f"{row['n']} questions on {details['documents']} documents; {model}.", *notes(details)],
        tables=[_by_kind(row, kinds)],
        pictures=_pictures(row, kinds),
    )
    compared = [_compared(row, kinds, told)] if "paired" in details else []
    return [first, *compared, *questions.sections(details)]


def _by_kind(row: Row, kinds: Sequence[Row]) -> Table:
    columns = [("all", row), *((one["details"]["kind"], one) for one in kinds)]
    body = [["questions", *(str(one["n"]) for _, one in columns)]]
    body += [
        [name, *(_cell(name, one["metrics"].get(name)) for _, one in columns)] for name in row["metrics"]
    ]
    return Table(["", *(name for name, _ in columns)], body)


def _pictures(row: Row, kinds: Sequence[Row]) -> list[Markup]:
    found = []
    curves = {
        name: one["details"]
        for name, one in _with_curve([("all", row), *((k["details"]["kind"], k) for k in kinds)])
    }
    if curves:
        series = {name: list(enumerate(curve["hits"], 1)) for name, curve in curves.items()}
        knees = {name: curve["knee"] for name, curve in curves.items()}
        title = "hit@k: the right document among the first k passages"
        found.append(lines(title, series, Axis("passages", range(1, 11)), Axis("", SHARES), knees=knees))
    spent = [(name, times) for name, prefix in PARTS if (times := _times(row, prefix))]
    if spent:
        found.append(bars("Where the time goes, milliseconds", spent))
    if len(kinds) > 1:
        by_kind = [
            (one["details"]["kind"], [(p, one["metrics"][m]) for p, m in SIDES if m in one["metrics"]])
            for one in kinds
        ]
        found.append(bars("By kind", by_kind))
    return [picture(svg) for svg in found]


SIDES = (
    ("right", "right by containment"),
    ("first hit", "first hit"),
    ("cited right", "citation precision"),
    ("tool right", "right tool called"),
)


def _with_curve(named: Sequence[tuple[str, Row]]) -> list[tuple[str, Row]]:
    """Of a single kind the whole says the same."""
    found = [(name, row) for name, row in named if "hits" in row["details"]]
    return found[:1] if len(found) == 2 else found


def _times(row: Row, prefix: str) -> list[tuple[str, float]]:
    metrics = row["metrics"]
    return [
        (p.upper(), metrics[f"{prefix}ms {p}"]) for p in ("p50", "p95", "p99") if f"{prefix}ms {p}" in metrics
    ]


def _compared(row: Row, kinds: Sequence[Row], told: Told) -> Section:
    """Both variants' figures, and what became of each question."""
    from rag_graph.evaluation.pairs import Paired, verdict

    pairs = [Paired(**pair) for pair in row["details"]["paired"]]
    return Section(
        "What changed",
        texts=[f"{pair.measure.replace('_', ' ').capitalize()}: {verdict(pair)}" for pair in pairs],
        tables=[
            *questions.changed(row["details"]["changes"]),
            _beside(row, told, "all"),
            *(_beside(one, told, one["details"]["kind"]) for one in kinds),
        ],
    )


# --- any other set ----------------------------------------------------------------------------------------------------


def _others(told: Told) -> list[Section]:
    """A section for each set: its figures, beside the other variant's where there are two, and its picture."""
    sections = []
    for row in told[-1][1]:
        if len(told) > 1:
            table = _beside(row, told)
        else:
            figures = [[name, _cell(name, value)] for name, value in row["metrics"].items()]
            table = Table(["", "value"], figures)
        sections.append(Section(f"{row['set']}, {row['n']} cases", tables=[table], pictures=_drawn(row)))
    return [*_swept(told[-1][1]), *sections]


def _drawn(row: Row) -> list[Markup]:
    """hit@k with its knee, evidence by tokens, or times, whichever the row has."""
    metrics, found = row["metrics"], []
    hits = [(k, metrics[f"hit@{k}"]) for k in range(1, 11) if f"hit@{k}" in metrics]
    if len(hits) > 2 and "size" not in row.get("details", {}):
        knees = {"hit@k": metrics["knee"]} if "knee" in metrics else None
        found.append(
            lines("hit@k", {"hit@k": hits}, Axis("passages", range(1, 11)), Axis("", SHARES), knees=knees)
        )
    if curve := row.get("details", {}).get("curve"):
        series = {side: [(p[f"tokens_{side}"], p[side]) for p in curve] for side in ("pasted", "context")}
        found.append(
            lines("Evidence in the context, by its tokens", series, Axis("tokens"), Axis("", SHARES))
        )
    if times := _times(row, ""):
        found.append(bars("Milliseconds", [("an answer", times)]))
    return [picture(svg) for svg in found]


def _swept(rows: Sequence[Row]) -> list[Section]:
    if not rows or "size" not in rows[0].get("details", {}):
        return []
    from rag_graph.evaluation.chunking import plot

    return [Section("hit@5 by chunk size", pictures=[picture(plot(rows))])]


def _beside(row: Row, told: Told, caption: str = "") -> Table:
    """The set's figures before and after, and what changed."""
    then: Row = next((one["metrics"] for one in told[0][1] if one["set"] == row["set"]), {})
    body = [[name, *_three(name, then.get(name), value)] for name, value in row["metrics"].items()]
    return Table(["", *(_variant(name) for name, _ in told), "change"], body, caption)


def _variant(name: str) -> str:
    """A file by its name alone: where it lies says nothing."""
    return "the settings in force" if name == "." else name.replace("\\", "/").rsplit("/", 1)[-1]


def _three(name: str, before: float | None, after: float) -> list[str]:
    change = "–" if before is None else _cell(name, after - before, "+")
    return [_cell(name, before), _cell(name, after), change]


def _cell(name: str, value: float | None, sign: str = "") -> str:
    if value is None:
        return "–"
    counted = "ms" in name.split() or name.endswith(("tokens", "_ms")) or abs(value) > 1
    return f"{value:{sign},.1f}" if counted else f"{value:{sign}.3f}"
