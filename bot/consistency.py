"""Settings that are valid one by one and do not fit together, or not what is there. Pure."""

from collections.abc import Collection, Sequence

from bot.findings import Finding
from bot.principals import unreadable
from bot.settings import Settings

__all__ = ["consistent"]

HOUSES = ("slack", "feishu")
EVERYWHERE = ("web", "cli")


def consistent(settings: Settings, collections: Collection[str]) -> list[Finding]:
    """People, places and rules, a finding each. `collections` are those that have documents."""
    houses = {name for name in HOUSES if getattr(settings, name) is not None}
    return [_people(settings, houses), _places(settings, houses), _rules(settings, collections)]


def _people(settings: Settings, houses: Collection[str]) -> Finding:
    review = settings.review
    if not review.reviewers:
        return Finding(
            "reviewers", False, "nobody may decide", "Name them in signoff.toml, [review] reviewers."
        )
    listed = [*review.reviewers, *review.admins]
    if wrong := unreadable(listed):
        remedy = "Write slack:U…, feishu:ou_…, web:name; a person's id is in their profile."
        return Finding("reviewers", False, f"nobody could be {', '.join(wrong)}", remedy)
    if away := _elsewhere(listed, houses):
        return Finding(
            "reviewers",
            False,
            f"{', '.join(away)}: their platform is not set up here",
            "Set it up (docs/install-slack.md, docs/install-feishu.md), or take them off the list.",
        )
    if not review.admins:
        remedy = "Name them in signoff.toml, [review] admins: without any nobody uploads by /kb."
        return Finding("reviewers", False, "there is no administrator", remedy)
    if houses and not any(who.partition(":")[0] in houses for who in review.reviewers):
        remedy = "Name a reviewer there (slack:U…, feishu:ou_…), in [review] reviewers."
        return Finding("reviewers", False, f"nobody in {' or '.join(sorted(houses))} may decide", remedy)
    alone = len(set(review.reviewers)) == 1
    if alone and any(rule.action == "two_reviewers" for rule in settings.rules.rules):
        remedy = "Name another reviewer: the second approval has to be somebody else's."
        return Finding("reviewers", False, "a rule asks for two, and there is one", remedy)
    return Finding("reviewers", True, ", ".join(review.reviewers))


def _places(settings: Settings, houses: Collection[str]) -> Finding:
    places = [*settings.review.channels, *settings.operations.alerts]
    if away := _elsewhere(places, houses):
        return Finding(
            "channels",
            False,
            f"{', '.join(away)}: their platform is not set up here",
            "Cards and alerts for them go nowhere: set the platform up, or name another channel.",
        )
    if houses and not settings.review.channels:
        remedy = "Set [review] channels: without one a held draft is seen in the workspace's console alone."
        return Finding("channels", False, "no review channel", remedy)
    if houses and not settings.operations.alerts:
        return Finding(
            "channels", True, "alerts go to the review channels ([operations] alerts names others)"
        )
    return Finding("channels", True, ", ".join(places) or "the workspace alone")


def _rules(settings: Settings, collections: Collection[str]) -> Finding:
    rules = settings.rules.rules
    if not collections:
        return Finding("rules", True, f"{len(rules)} in order; no document is there yet")
    unknown = {
        rule.name: missing
        for rule in rules
        if (missing := [name for name in rule.collections if name not in collections])
    }
    if unknown:
        told = "; ".join(f'"{name}" names {", ".join(missing)}' for name, missing in unknown.items())
        remedy = (
            "No document is in such a collection, so that the rule holds nothing: mend the name, or upload."
        )
        return Finding("rules", False, told, remedy)
    return Finding("rules", True, f"{len(rules)} in order; without a match an answer is sent")


def _elsewhere(principals: Sequence[str], houses: Collection[str]) -> list[str]:
    """Those of a platform that is not set up."""
    return [who for who in principals if who.partition(":")[0] not in {*houses, *EVERYWHERE}]
