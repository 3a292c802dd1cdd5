"""How well the checker tells true sentences from false ones, by kind."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rag_graph.evaluation.claims import Claim, claims, halves
from rag_graph.evaluation.datasets import EvaluationSet, SetUnusable
from rag_graph.evaluation.results import Result
from rag_graph.grounding import support

__all__ = ["grounded"]


def grounded(chosen: EvaluationSet, config: Mapping[str, Any], seed: int = 0) -> list[Result]:
    """One row for the set and one for each kind of claim, false and true apart.

    "caught" is the share of false sentences judged unsupported, "false alarms" that of true ones. A weak sentence is
    neither; "unchecked" is the share that nothing could be said of. Details tell kinds by language and half.
    """
    made = claims(chosen, seed)
    if not made:
        raise SetUnusable(f"{chosen.name} has no answers that stand in a sentence of their passage.")
    judged = [(claim, support(claim.text, [claim.passage])) for claim in made]
    half = {id(claim): name for name, members in halves(made).items() for claim in members}
    results = [Result(chosen.name, len(judged), _figures(judged), {**config, "seed": seed})]
    for true, kind in dict.fromkeys((claim.true, claim.kind) for claim in sorted(made, key=_order)):
        members = [(claim, told) for claim, told in judged if (claim.true, claim.kind) == (true, kind)]
        parts = {f"{claim.language}, {half[id(claim)]}" for claim, _ in members}
        details = {
            part: _figures([(c, t) for c, t in members if f"{c.language}, {half[id(c)]}" == part])
            | {"n": sum(f"{c.language}, {half[id(c)]}" == part for c, _ in members)}
            for part in sorted(parts)
        }
        name = f"{chosen.name}: {'true' if true else 'false'}, {kind}"
        results.append(Result(name, len(members), _figures(members), {**config, "seed": seed}, details))
    return results


def _order(claim: Claim) -> tuple[bool, str]:
    return claim.true, claim.kind


def _figures(judged: Sequence[tuple[Claim, str]]) -> dict[str, float]:
    figures: dict[str, float] = {}
    for true, name in ((False, "caught"), (True, "false alarms")):
        told = Counter(support for claim, support in judged if claim.true is true)
        if total := sum(told.values()):
            figures[name] = round(told["unsupported"] / total, 4)
            if true:
                figures["unchecked"] = round(told["unchecked"] / total, 4)
    return figures
