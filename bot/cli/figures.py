"""What a person reads of an evaluation in the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

import typer

__all__ = ["say", "say_both"]

Row = Mapping[str, Any]

SHOWN = 70  # characters of a question


def say(rows: Sequence[Row]) -> None:
    """Each set's figures; of people's own questions one table by kind, and where they went wrong."""
    for row in rows:
        details = row.get("details", {})
        if "questions" in details:
            _say_kinds(row, [one for one in rows if one["set"].startswith(f"{row['set']}, ")])
            _say_questions(details)
        elif "kind" not in details:
            _say_one(row)
    _draw(rows)


def say_both(first: Sequence[Row], second: Sequence[Row]) -> None:
    """Side by side, by set and metric; what only one of them has is shown with a gap. Of people's own questions also
    which became better or worse, and whether that is more than chance."""
    ours = {row["set"]: row for row in second}
    for row in first:
        other = ours.pop(row["set"], None)
        typer.echo(f"{row['set']}  n={row['n']}, {other['n'] if other else '–'}")
        for name in dict.fromkeys([*row["metrics"], *(other["metrics"] if other else ())]):
            before, after = row["metrics"].get(name), other["metrics"].get(name) if other else None
            change = "" if before is None or after is None else f"{after - before:+10.4f}"
            typer.echo(f"  {name:32} {_figure(before)} {_figure(after)} {change}")
    for row in ours.values():
        _say_one(row)
    for row in second:
        _say_changes(row.get("details", {}))


def _say_one(row: Row) -> None:
    typer.echo(f"{row['set']}  n={row['n']}  configuration {row['config_hash']}")
    for name, value in row["metrics"].items():
        typer.echo(f"  {name:32} {value:10.4f}")


def _draw(rows: Sequence[Row]) -> None:
    """A bar for each setting of a sweep; nothing for other rows."""
    if rows and "size" in rows[0].get("details", {}):
        from rag_graph.evaluation.chunking import bars

        typer.echo("\n".join(["", *bars(rows)]))


def _figure(value: float | None, width: int = 10) -> str:
    return f"{'–':>{width}}" if value is None else f"{value:{width}.4f}"


# --- people's own questions -----------------------------------------------------------------------------------------


def _say_kinds(whole: Row, kinds: Sequence[Row]) -> None:
    """The figures with a column for all and for each kind."""
    columns = [("all", whole), *((str(row["details"]["kind"]), row) for row in kinds)]
    details = whole["details"]
    model = "a language model" if details["model"] else "no language model: quotations, and no tool is called"
    typer.echo(
        f"{whole['set']}  {whole['n']} questions, {details['documents']} documents, {model}  "
        f"configuration {whole['config_hash']}"
    )
    typer.echo(f"  {'':28}" + "".join(f"{name:>11}" for name, _ in columns))
    typer.echo(f"  {'questions':28}" + "".join(f"{row['n']:>11}" for _, row in columns))
    for name in whole["metrics"]:
        cells = (_short(name, row["metrics"].get(name)) for _, row in columns)
        typer.echo(f"  {name:28}" + "".join(f"{cell:>11}" for cell in cells))
    if "knee" in details:
        typer.echo(f"  beyond {details['knee']} passages more tokens bring little (the knee of hit@k)")


def _short(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.1f}" if "ms " in name or name.endswith("tokens") else f"{value:.3f}"


def _say_questions(details: Row) -> None:
    from rag_graph.evaluation.faults import FAULTS, TROUBLES, notes

    rows = details["questions"]
    for fault, (side, meaning, remedy) in FAULTS.items():
        if found := [row for row in rows if row["fault"] == fault]:
            typer.echo(f"\n{side} · {fault}: {len(found)}. {meaning}\n  → {remedy}")
            for row in found:
                typer.echo(f"  {_named(row)}\n      {_seen(row)}")
    for trouble, (told, remedy) in TROUBLES.items():
        if found := [row for row in rows if trouble in row["tool_troubles"]]:
            typer.echo(f"\ntool · {told}: {len(found)}\n  → {remedy}")
            for row in found:
                typer.echo(f"  {_named(row)}")
    for note in notes(details):
        typer.echo(f"\n{note}")


def _named(row: Row) -> str:
    text = " ".join(str(row["text"]).split())
    return f"line {row['line']} [{row['kind']}] {text[:SHOWN]}{'…' if len(text) > SHOWN else ''}"


def _seen(row: Row) -> str:
    """What was retrieved first, and what was cited."""
    first = next((f"{one['document']} › {one['heading']}" for one in row["retrieved"]), "nothing")
    place = f", the right document at place {row['place']}" if row["place"] else ""
    cited = ", ".join(dict.fromkeys(one["document"] for one in row["cited"])) or "nothing"
    return f"found first: {first}{place}; cited: {cited}; {row['status']}"


def _say_changes(details: Row) -> None:
    from rag_graph.evaluation.pairs import Paired, verdict

    for pair in details.get("paired", ()):
        told = Paired(**pair)
        typer.echo(f"{told.measure.replace('_', ' '):18} {verdict(told)}")
    for change in details.get("changes", ()):
        wrong = f"was: {change['before']}" if change["became"] == "better" else f"now: {change['after']}"
        typer.echo(f"  {change['became']:7} {_named(change)} ({wrong})")
