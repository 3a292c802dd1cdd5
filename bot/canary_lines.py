"""What a canary says to people: the lines of its status, what happened last, why something was not done. Pure."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bot.trials import ITSELF
from bot.words import Words
from rag_graph.canary import Standing
from store.canaries import CanaryRow

if TYPE_CHECKING:
    from bot.canary import Refused, Status

__all__ = ["ending", "refusal", "said", "shown", "told"]


def shown(words: Words, language: str, status: "Status") -> list[str]:
    """The status, line by line."""
    guardrails = [_guardrail(words, language, standing) for standing in status.standings]
    return [*said(words, language, status), *guardrails, *ending(words, language, status)]


def said(words: Words, language: str, status: "Status") -> list[str]:
    """Which variant, for whom, and how far its step is."""
    row = status.canary
    if row is None:
        return [words(language, "canary.none")]
    if not row.in_force:
        return [words(language, "canary.last", told=told(words, language, row))]
    lines = [_head(words, language, row)]
    if not status.known:
        lines.append(words(language, "canary.unknown_here"))
    return [*lines, *(_step(words, language, status) if row.state == "running" else ())]


def ending(words: Words, language: str, status: "Status") -> list[str]:
    """What to write into the settings, once everybody is answered by it."""
    if status.canary is None or not status.lines or status.next is not None:
        return []
    return [words(language, "canary.lines", variant=status.canary.variant), *status.lines]


def refusal(words: Words, language: str, error: "Refused") -> str:
    """Why something was not done."""
    values = dict(error.values)
    if error.key == "tried":
        values["reason"] = words(language, f"canary.guardrail.{values['reason']}")
    return words(language, f"canary.refused.{error.key}", **values)


def told(words: Words, language: str, row: CanaryRow) -> str:
    """What happened last, in a sentence."""
    step: Mapping[str, Any] = row.steps[-1]
    if "ours" in step:
        (bad, of), (their_bad, their_of) = step["ours"], step["theirs"]
        return words(
            language,
            "canary.told.tripped",
            variant=row.variant,
            guardrail=words(language, f"canary.guardrail.{row.reason}"),
            bad=bad,
            of=of,
            usual=_percent(step["usual"]),
            their_bad=their_bad,
            their_of=their_of,
        )
    if row.state == "rolled_back":
        key = row.reason if step["by"] == ITSELF else "back"
        return words(language, f"canary.told.{key}", variant=row.variant, who=step["by"], reason=row.reason)
    key = "promoted" if row.state == "promoted" else step["what"]
    return words(language, f"canary.told.{key}", variant=row.variant, percent=row.percent, who=step["by"])


def _head(words: Words, language: str, row: CanaryRow) -> str:
    where = (
        words(language, "canary.within", channels=", ".join(row.channels))
        if row.channels
        else words(language, "canary.all")
    )
    return words(
        language,
        f"canary.head_{row.state}",
        variant=row.variant,
        percent=row.percent,
        where=where,
        who=row.started_by,
        day=f"{row.started_at:%Y-%m-%d}",
    )


def _step(words: Words, language: str, status: "Status") -> list[str]:
    plan = status.plan
    following = "next_last" if status.next is None else "next"
    return [
        words(
            language,
            "canary.step",
            days=f"{status.days:.1f}",
            of_days=f"{plan.days:g}",
            questions=status.of_step,
            of_questions=plan.questions,
            total=status.questions,
        ),
        words(language, f"canary.{following}", percent=status.next)
        + " "
        + words(language, "canary.lacking" if status.lacking else "canary.ready"),
    ]


def _guardrail(words: Words, language: str, standing: Standing) -> str:
    name = words(language, f"canary.guardrail.{standing.guardrail}")
    if not standing.ours.of:
        return words(language, "canary.guardrail_idle", name=name)
    return words(
        language,
        "canary.guardrail_line",
        name=name,
        bad=standing.ours.bad,
        of=standing.ours.of,
        rate=_percent(standing.ours.rate),
        their_bad=standing.theirs.bad,
        their_of=standing.theirs.of,
        their_rate=_percent(standing.theirs.rate),
        near=round(100 * standing.near),
        limit=standing.limit,
    )


def _percent(rate: float) -> str:
    return f"{100 * rate:.1f}".removesuffix(".0")
