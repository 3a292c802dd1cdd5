"""Whether this process can serve, part by part, for /readyz: what is down takes it out of service, what is only worse
than it should be does not."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from store.errors import DatabaseUnavailable, StoreError
from store.schema import REVISION

if TYPE_CHECKING:
    from bot.app import App

State = Literal["ok", "degraded", "down"]
UNKNOWN = "the database does not answer"


@dataclass(frozen=True, slots=True)
class Check:
    """One dependency and, in a few words without anybody's text or secret, why it is as it is."""

    state: State
    why: str


async def check(app: "App") -> dict[str, Check]:
    """Every dependency by name. A platform that is not set up is not among them."""
    return {
        **await _database(app),
        "model": _model(app),
        "embedder": _embedder(app),
        **_platforms(app),
        "queue": await _queue(app),
    }


def ready(checks: Mapping[str, Check]) -> bool:
    return all(one.state != "down" for one in checks.values())


async def _database(app: "App") -> dict[str, Check]:
    database = app.store.database
    try:
        await database.ping()
    except StoreError as error:
        return {"database": Check("down", str(error)), "migrations": Check("down", UNKNOWN)}
    answers = Check("ok", "it answers")
    try:
        await database.assert_ready()
    except StoreError as error:
        return {"database": answers, "migrations": Check("down", str(error))}
    return {"database": answers, "migrations": Check("ok", f"at {REVISION}")}


def _model(app: "App") -> Check:
    """As the last call found it: asking again for each probe would cost money."""
    if app.settings.llm is None:
        return Check("ok", "none is set up: answers are quotations")
    failed = app.telemetry.metrics.model_failed
    if failed:
        return Check(
            "degraded", f"the last call brought nothing ({failed}); answers are quotations meanwhile"
        )
    return Check("ok", "the last call brought an answer, or none was made yet")


def _embedder(app: "App") -> Check:
    embedder = app.admin.embedder
    if embedder.model == "none":
        return Check("degraded", "none is installed or set up: search goes by keywords alone")
    if "embedding" in app.telemetry.metrics.missing:
        return Check("degraded", f"the last search went without {embedder.model}")
    return Check("ok", embedder.model)


def _platforms(app: "App") -> dict[str, Check]:
    """Of those that are set up. One that no listener has spoken about is heard over HTTP, or only beginning."""
    checks = {}
    for name in ("slack", "feishu"):
        if name in app.platforms:
            ask = app.health.get(name)
            why = ask() if ask else ""
            checks[name] = Check("down", why) if why else Check("ok", "nothing is known to be wrong with it")
    return checks


async def _queue(app: "App") -> Check:
    """Without a worker questions are stored and wait, so that this process can go on taking them."""
    try:
        served = await app.store.queue.served()
    except DatabaseUnavailable:
        return Check("degraded", UNKNOWN)
    if served:
        return Check("ok", "a worker is alive")
    return Check("degraded", "no worker is alive in any process: questions are taken and wait")
