"""The console's list of runs, one of them with its verdict, and the documents that no answer ever cited."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bot.traces import FLAGS, NAMED, OUTCOMES, withheld, zone_of
from bot.traces import wanted as wanted_of
from bot.verdict import Case, Hint, Ruling, find, reason, remedy, telling
from bot.web.door import Site, needs
from bot.web.render import Cite, markdown
from bot.web.run_views import Trail, happenings, item, place_name, stretch
from bot.web.threads import IDENTITY
from bot.web.views import Reader
from store.runs import RunRow
from store.text import clean

PAGE = 50
UNCITED_DAYS = 30
LONGEST = 300  # characters of what a person types into a filter


def routes() -> list[Route]:
    address = "/console/runs"
    return [
        Route(address, needs("admin", listed), methods=["GET"]),
        Route(address + "/uncited", needs("admin", uncited), methods=["GET"]),
        Route(address + "/{question:str}", needs("admin", show), methods=["GET"]),
    ]


# --- the list


async def listed(request: Request, site: Site) -> Response:
    reader, store = site.pages.reader(request), site.app.store
    given = {name: _typed(request, name) for name in (*NAMED, *FLAGS, "day")}
    wanted = wanted_of(given, zone_of(site.app.settings), _number(_typed(request, "before")))
    rows = await store.runs.page(wanted, PAGE + 1)
    variants, rules = await store.runs.names()
    asked = {name: value for name, value in given.items() if value}
    older = urlencode({**asked, "before": rows[PAGE - 1].id}) if len(rows) > PAGE else ""
    return site.pages.page(
        request,
        "runs.html",
        room="runs",
        runs=[item(row, reader, site.app.settings.model.prices.currency) for row in rows[:PAGE]],
        given=given,
        active=len(asked),
        older=older,
        paged=bool(wanted.before),
        newest=urlencode(asked),
        zone=str(zone_of(site.app.settings)),
        outcomes=OUTCOMES,
        platforms=sorted(site.app.platforms),
        collections=[row.name for row in await store.documents.collections()],
        variants=variants,
        rules=rules,
    )


def _typed(request: Request, name: str) -> str:
    return clean(request.query_params.get(name, "")).strip()[:LONGEST]


def _number(written: str) -> int:
    return int(written) if written.isascii() and written.isdigit() and len(written) < 19 else 0


# --- one run


async def show(request: Request, site: Site) -> Response:
    """All stretches of one question's way, and whose fault it was."""
    reader, app = site.pages.reader(request), site.app
    question_id = request.path_params["question"]
    if not IDENTITY.fullmatch(question_id):
        raise HTTPException(404)
    question = await app.store.conversations.question(question_id)
    conversation = await app.store.conversations.get(question.conversation_id)
    rows = await app.store.runs.for_question(question.id)
    hidden = withheld(question.state, conversation.private, question.asker, (reader.person.principal,))
    shown = not hidden
    latest = telling(rows)
    case = Case(question, conversation, latest) if latest else None
    hint = Hint(_typed(request, "name"), _typed(request, "words"))
    reviews = await app.store.reviews.for_question(question.id)
    return site.pages.page(
        request,
        "run.html",
        room="runs",
        question=question,
        reference=question.id[:8],
        hidden=hidden,
        asker=reader.name(question.asker),
        place=place_name(conversation.platform, conversation.channel, conversation.private, reader),
        said=_said(question.answer) if shown else None,
        reviews=[review.id for review in reviews],
        hint=hint,
        verdict=await _verdict(site, reader, case, hint, shown=shown) if case else None,
        happened=happenings(await _trail(site, question, rows, reviews), reader, shown=shown),
        stretches=await _stretches(site, reader, rows, shown=shown),
    )


async def _verdict(
    site: Site, reader: Reader, case: Case, hint: Hint, *, shown: bool
) -> Mapping[str, Any] | None:
    """The verdict as the page says it. The steps of the checklist may name words of the question."""
    words, language = site.app.words, reader.language
    ruling: Ruling | None = await find(site.app, case, hint, language)
    if ruling is None:
        return None
    return {
        "fault": ruling.first.fault,
        "presumed": ruling.presumed,
        "said": reason(words, language, case, ruling, ruling.first),
        "remedy": markdown(remedy(words, language, case, ruling, ruling.first)),
        "document": ruling.first.match.document_id if ruling.first.match else 0,
        "others": [
            (words(language, f"verdict.fault.{other.fault}"), reason(words, language, case, ruling, other))
            for other in ruling.verdicts[1:]
        ],
        "checks": [
            {"name": check.name, "ok": check.ok, "detail": check.detail, "remedy": markdown(check.remedy)}
            for check in (ruling.checks if shown else ())
        ],
    }


async def _trail(site: Site, question: Any, rows: list[RunRow], reviews: list[Any]) -> Trail:
    store = site.app.store
    return Trail(
        question=question,
        runs=rows,
        reviews=[event for review in reviews for event in await store.reviews.events(review.id)],
        deliveries=await store.deliveries.for_question(question.id),
        opinions=await store.conversations.feedback_on(question.id),
    )


async def _stretches(site: Site, reader: Reader, rows: list[RunRow], *, shown: bool) -> list[Any]:
    tracing = site.app.store.tracing
    ids = {passage for row in rows for passage in (*row.retrieved, *row.cited)}
    documents = {int(score["document"]) for row in rows for score in row.scores if score.get("document")}
    known = await tracing.passages(sorted(ids)) if ids else {}
    titles = await tracing.titles(sorted(documents)) if documents else {}
    currency = site.app.settings.model.prices.currency
    return [stretch(row, known, titles, reader, currency=currency, shown=shown) for row in rows]


def _said(answer: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """What readers were shown, its marks as the answer has them."""
    if answer is None:
        return None
    cites = {int(cited["number"]): Cite("", "") for cited in answer.get("citations", ())}
    return {"html": markdown(str(answer["text"]), cites), "language": answer.get("language", "en")}


# --- what nobody cites


async def uncited(request: Request, site: Site) -> Response:
    days = min(_number(_typed(request, "days")) or UNCITED_DAYS, 3_650)
    rows = await site.app.store.tracing.uncited(datetime.now(UTC) - timedelta(days=days))
    return site.pages.page(request, "uncited.html", room="runs", days=days, documents=rows)
