"""The decision side's results as a section of docs/benchmarks.md, and the curve of contexts as a picture."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.provenance import ROOT
from bench.tables import write_section

__all__ = ["write"]

RESULTS = ROOT / "bench/results"
PICTURE = RESULTS / "decision-context.png"
ABOUT = {
    "grounding": "Sentences of the gold passages, true and made false by a seeded script. Caught and false alarms are "
    "the shares judged unsupported; mended on half of the passages, the JSON has both halves.",
    "tools": "One tool of N (nested sets), the right function of those offered, and none where none fits.",
    "context": "The share of the evidence (the answer's sentence of each gold passage) in the k best passages pasted "
    "whole, and in a context from the ten best at no more tokens.",
    "multihop": "Sub-questions of the decomposition, `#n` filled by the gold answers (an oracle), through the question "
    "graph.",
    "rewrite": "Follow-ups by rule, without a model.",
    "abstain": "Questions whose passage was withheld. Shipped is the product's confidence, fitted on this set; folds "
    "did not see the passages they are judged on.",
}


def write() -> None:
    """Put every decision-*.json into the page; draw the contexts where they were measured."""
    parts = ["## The decision side", ""]
    for name, about in ABOUT.items():
        path = RESULTS / f"decision-{name}.json"
        if path.exists():
            parts += _part(name, about, json.loads(path.read_text(encoding="utf-8")))
    print(write_section(ROOT / "docs" / "benchmarks.md", "decision", "\n".join(parts)))


def _part(name: str, about: str, told: Mapping[str, Any]) -> list[str]:
    rows = told["results"]
    lines = [
        f"### {name}",
        "",
        f"`{told['command']}`, configuration `{told['config_hash']}`. {about}",
        "",
        "| set | n | |",
        "| --- | ---: | --- |",
    ]
    lines += [f"| {row['set']} | {row['n']} | {_figures(row['metrics'])} |" for row in rows]
    if name == "context":
        _draw(rows, PICTURE)
        lines += ["", f"![contexts](../{PICTURE.relative_to(ROOT)})"]
    return [*lines, ""]


def _figures(metrics: Mapping[str, float]) -> str:
    return " · ".join(f"{name} {value:.3f}".rstrip("0").rstrip(".") for name, value in metrics.items())


def _draw(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1, len(rows), figsize=(4 * len(rows), 3.2), layout="constrained", squeeze=False
    )
    for axis, row in zip(axes[0], rows, strict=True):
        curve = row["details"]["curve"]
        for side, mark in (("pasted", "o--"), ("context", "s-")):
            axis.plot(
                [p[f"tokens_{side}"] for p in curve], [p[side] for p in curve], mark, label=side, markersize=4
            )
        axis.set(title=row["set"], xlabel="tokens", ylabel="evidence in context")
        axis.legend()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


if __name__ == "__main__":
    write()
