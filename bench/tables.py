"""Markdown tables, and putting them into a page without touching what stands around them."""

from collections.abc import Sequence
from pathlib import Path


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table: the first column to the left, the others to the right."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, rule, *rows])


def write_section(page: Path, name: str, text: str) -> str:
    """Replace what stands between the two marks of `name` in `page`, or append both; returns `text`."""
    begin, end = f"<!-- {name}: written by bench -->", f"<!-- /{name} -->"
    old = page.read_text(encoding="utf-8") if page.exists() else "# Benchmarks\n"
    section = f"{begin}\n{text.strip()}\n{end}"
    if begin in old and end in old:
        before, rest = old.split(begin, 1)
        new = before + section + rest.split(end, 1)[1]
    else:
        new = f"{old.rstrip()}\n\n{section}\n"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(new, encoding="utf-8")
    return text
