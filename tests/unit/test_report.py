"""Reports are one file that shows what people wrote as text, whatever it is."""

import re
from typing import Any

import pytest

from bench.load_page import page, report
from bot.cli.evaluation import harmless
from bot.report.evaluation import evaluation_page
from rag_graph.evaluation.drawing import Axis, bars, lines

HOSTILE = 'a"><script>alert(1)</script>'


def row(name: str, details: dict[str, Any] | None = None, **metrics: float) -> dict[str, Any]:
    return {
        "set": name,
        "n": 3,
        "metrics": metrics,
        "config_hash": "abc",
        **({"details": details} if details else {}),
    }


def test_any_evaluation_has_a_report_that_needs_nothing_else() -> None:
    """Figures, hit@k with its knee, a sweep, times; names of sets are text; nothing is loaded from anywhere."""
    hits = {f"hit@{k}": min(1.0, k / 4) for k in range(1, 11)}
    rows = [
        row(HOSTILE, None, **hits, knee=4.0, **{"ms p50": 3.0, "ms p95": 9.0, "ms p99": 12.0}),
        row("sweep 200/0", {"size": 200, "overlap": 0}, **{"hit@5": 0.5}),
        row("sweep 400/0", {"size": 400, "overlap": 0}, **{"hit@5": 0.75}),
    ]
    html = evaluation_page(f"signoff eval {HOSTILE}", [(".", rows[:1] + rows[1:])])
    assert "<script" not in html
    assert html.count("&lt;script&gt;") >= 3
    assert re.findall(r'(?:src|href)="(?!#)|url\(', html) == []
    assert html.count("<svg") >= 2
    swept = evaluation_page("signoff eval chunking", [(".", rows[1:])])
    assert "hit@5 by characters of a chunk" in swept


def test_two_variants_stand_side_by_side() -> None:
    """Before, after and the change; what only one of them has is a gap."""
    html = evaluation_page(
        "signoff eval rewrite",
        [("a.toml", [row("s", x=0.5)]), (".", [row("s", x=0.75, y=1.0)])],
    )
    assert "+0.250" in html
    assert "a.toml with the settings in force" in html


def test_pictures_show_names_as_text_and_keep_their_points_inside() -> None:
    """A hostile name is escaped; every point of a line lies within the picture; a knee is ringed, a limit drawn."""
    drawn = lines(HOSTILE, {HOSTILE: [(1, 0.2), (10, 40.0)]}, Axis("rate"), Axis("", log=True),
                  limit=("limit", 3.0), knees={HOSTILE: 10})  # fmt: skip
    for svg in (drawn, bars(HOSTILE, [(HOSTILE, [("P50", 3.0), (HOSTILE, 0.0)])], " ms")):
        assert "<script" not in svg
        width, height = map(float, re.findall(r'viewBox="0 0 (\S+) (\S+)"', svg)[0])
        for x, y in re.findall(r"(-?[\d.]+),(-?[\d.]+)", " ".join(re.findall(r'points="([^"]+)"', svg))):
            assert 0 <= float(x) <= width
            assert 0 <= float(y) <= height
    assert drawn.count("<circle") == 1
    assert "limit" in drawn


def test_a_load_report_shows_every_process_count_and_where_it_breaks() -> None:
    """The kinds apart, the rate that holds and the one that breaks, by serving processes."""
    spread = {"p50": 500.0, "p95": 900.0, "p99": 1000.0}
    kind = {
        "questions": 50, "answered": 50, "errors": 0, "declined": 1, "without": {}, "end_to_end_ms": spread,
        "search_ms": spread, "model_ms": spread, "model_calls": 1.0, "prompt_tokens": 900.0, "completion_tokens": 20.0,
        "right_document_retrieved": 0.98, "answer_right": 0.96, "right_tool": None,
    }  # fmt: skip
    kinds = {"all": kind, "single": kind, "multi-hop": kind, "tool": {**kind, "right_tool": 1.0}}
    step = {"rate": 2.0, "questions": 150, "answered": 150, "ms": spread, "kinds": kinds,
            "processor_seconds": {"signoff": 13.0, "postgres": 4.0}}  # fmt: skip
    told = {
        "faults": [], "load_before": 0.1,
        "provenance": {"date": "2026-12-01T10:00:00", "commit": "abcdef1234", "config_hash": "abc",
                       "machine": {"processor": "P", "cores": 2, "memory_gib": 8.0}},
    }  # fmt: skip
    late = {**step, "rate": 3.0, "ms": {**spread, "p95": 4000.0}}
    found = {
        "kinds-1": {**told, "measured": {"kinds": kinds, "rate": 1.0, "limit_seconds": 3.0, "model": "a stand-in"}},
        **{
            f"knee-{n}": {**told, "measured": {"tried": [step, late], "holds": 2.0, "breaks": 3.0, "limit_seconds": 3.0,
                                               "model": "a stand-in"}}
            for n in (1, 2, 4)
        },
    }  # fmt: skip
    told_in_words = page(found)
    assert "| 4 | 2 | 3 | 2: 0.50 / 0.90 / 1.00" in told_in_words
    assert "| answer right, by containment | 0.960 | 0.960 | 0.960 | 0.960 |" in told_in_words
    drawn = report(found)
    assert all(f"{n} serving process" in drawn for n in (1, 2, 4))
    assert "limit, 3 s" in drawn
    assert "0.980" in drawn


@pytest.mark.parametrize("said", ["=HYPERLINK(1)", "+1", "-2", "@SUM(A1)", "\t=1"])
def test_a_cell_is_shown_and_not_computed(said: str) -> None:
    """What documents and models say begins like a formula now and then; numbers stay numbers."""
    assert harmless(said) == f"'{said}"
    assert [harmless(value) for value in ("15 days", -2, True, "")] == ["15 days", -2, True, ""]
