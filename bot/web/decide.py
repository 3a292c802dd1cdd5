"""The reviewer's side: clicks become Action, reviews become cards."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bot.cards import beside
from bot.messages import REASONS, Action
from bot.review import Acted
from bot.web import desk_views, views
from bot.web.desk_views import Asked
from bot.web.door import Site, by_htmx, feed, field, needs, posted, seen
from bot.web.pages import Block, Said
from bot.web.people import PLATFORM
from store.reviews import ReviewRow

VERBS = ("claim", "release", "reassign", "approve", "edit", "reject")
NONE = "none"
MEDIAN_OF = timedelta(days=7)


def routes() -> list[Route]:
    return [
        Route("/review", needs("reviewer", desk), methods=["GET"]),
        Route("/review/none", needs("reviewer", desk), methods=["GET"]),
        Route("/review/none/changes", needs("reviewer", changes), methods=["GET"]),
        Route("/review/none/events", needs("reviewer", events), methods=["GET"]),
        Route("/review/{review:int}", needs("reviewer", desk), methods=["GET"]),
        Route("/review/{review:int}", needs("reviewer", act), methods=["POST"]),
        Route("/review/{review:int}/changes", needs("reviewer", changes), methods=["GET"]),
        Route("/review/{review:int}/events", needs("reviewer", events), methods=["GET"]),
    ]


async def desk(request: Request, site: Site) -> Response:
    return await _page(request, site)


async def changes(request: Request, site: Site) -> Response:
    blocks, _ = await _blocks(request, site, seen(request))
    return site.pages.changes(request, blocks, seen(request))


async def events(request: Request, site: Site) -> Response:
    return feed(site, ["reviews", "documents"])


async def act(request: Request, site: Site) -> Response:
    """A click. Everyone who clicks gets a sentence, also who comes late or may not."""
    form = await posted(request)
    if field(form, "verb") == "answer":
        said = await _by_hand(request, site, form)
    else:
        acted = await _carry_out(request, site, form)
        said = _said(acted, site.pages.reader(request), field(form, "to"))
    if not by_htmx(request):
        return await _page(request, site, said)
    blocks, _ = await _blocks(request, site, seen(request, form))
    return site.pages.changes(request, blocks, seen(request, form), said=said)


async def _by_hand(request: Request, site: Site, form: FormData) -> Said:
    """A person answers what no draft was good enough for."""
    reader, review_id = site.pages.reader(request), request.path_params["review"]
    became = await site.app.by_hand.answer(review_id, reader.person.principal, field(form, "text"))
    return Said(reader.words(f"review.{became}"), "good" if became == "answered" else "bad")


async def _carry_out(request: Request, site: Site, form: FormData) -> Acted:
    verb = field(form, "verb")
    if verb not in VERBS:
        raise HTTPException(400, "form")
    review_id = request.path_params["review"]
    person = site.pages.reader(request).person
    review = await site.app.store.reviews.find(review_id)
    if (
        review is not None
        and verb not in ("release", "reassign")
        and not await _readable(request, site, review)
    ):
        return Acted("hidden", review)
    return await site.app.reviewing.act(
        Action(
            platform=PLATFORM,
            review_id=review_id,
            version_hash=field(form, "version_hash"),
            actor=person.principal,
            verb=verb,  # type: ignore[arg-type] # one of VERBS
            text=field(form, "text") if verb == "edit" else "",
            reason=field(form, "reason"),
            hint=field(form, "hint"),
            question=field(form, "question"),
            to=field(form, "to"),
        )
    )


def _said(acted: Acted, reader: views.Reader, to: str) -> Said:
    review = acted.review
    if acted.key == "hidden":
        return Said(reader.t("review.hidden_click"), "bad")
    if review is not None and acted.key == "late" and review.state == "pending":
        key = "late_claim" if review.claimed_by else "late_release"
        return Said(reader.words(f"review.{key}", who=reader.name(review.claimed_by or "")), "bad")
    if review is not None and acted.key in ("reassigned", "no_reviewer"):
        who = reader.name(to if acted.key == "no_reviewer" else review.claimed_by or "")
        return Said(reader.words(f"review.{acted.key}", who=who), "good" if acted.changed else "bad")
    who = reader.name(review.decided_by) if review and review.decided_by else "Signoff"
    state = reader.words(f"review.state.{review.state}") if review else ""
    return Said(reader.words(f"review.{acted.key}", who=who, state=state), "good" if acted.changed else "bad")


async def _page(request: Request, site: Site, said: Said | None = None) -> Response:
    blocks, selected = await _blocks(request, site, ())
    return site.pages.page(
        request,
        "review.html",
        room="review",
        notice=said,
        selected=selected,
        queue=site.pages.blocks(request, [b for b in blocks if b.into == "queue-place"]),
        blocks=site.pages.blocks(request, [b for b in blocks if b.into == "blocks"]),
    )


async def _blocks(request: Request, site: Site, had: Sequence[str]) -> tuple[list[Block], int | None]:
    """The queue, and the card: the one in the address; else the one that the page has; else the one that waits
    longest."""
    reader = site.pages.reader(request)
    waiting = await site.app.store.reviews.list("pending")
    selected = request.path_params.get("review") or _shown(had) or (waiting[0].id if waiting else None)
    ended = await site.app.store.reviews.ended()
    asked = {row.id: await _asked(site, row) for row in (*waiting, *ended)}
    marks = await site.app.store.history.marks([row.id for row in waiting])
    median = await site.app.store.insight.decision_seconds(datetime.now(UTC) - MEDIAN_OF)
    queue = site.pages.block(
        request,
        "queue.html",
        "queue",
        into="queue-place",
        waiting=[desk_views.queue_item(asked[row.id], reader, marks.get(row.id, "")) for row in waiting],
        median=None if median is None else desk_views.spelled(median, reader),
        decided=[desk_views.queue_item(asked[row.id], reader) for row in ended],
        selected=selected,
    )
    if selected is None:
        return [queue, site.pages.block(request, "no_card.html", "card-none")], None
    following = next((row.id for row in waiting if row.id != selected), None)
    return [queue, await _card(request, site, selected, following)], request.path_params.get("review")


async def _card(request: Request, site: Site, review_id: int, following: int | None) -> Block:
    reader = site.pages.reader(request)
    asked = await _asked(site, await site.app.store.reviews.get(review_id))
    readers = views.principals(reader.person, asked.conversation)
    seen_beside = await beside(site.app.store, asked.review, readers)
    asked = replace(asked, review=replace(asked.review, draft=seen_beside))
    cited = [citation["passage_id"] for citation in asked.review.draft.get("citations", ())]
    passages = {p.id: p for p in await site.app.store.search.passages(cited, readers)} if cited else {}
    readable = desk_views.may_read_draft(asked.review, readers, passages)
    if readable and asked.review.state == "pending":
        # Before its events are read: what is drawn here is not another card a moment later.
        await site.app.store.reviews.saw(review_id, reader.person.principal)
    card = desk_views.card(
        asked,
        reader,
        passages=passages,
        readable=readable,
        events=await site.app.store.reviews.events(review_id),
        others=[p for p in site.app.settings.review.reviewers if p != asked.question.asker],
    )
    return site.pages.block(
        request, "card.html", f"card-{review_id}", card=card, reasons=REASONS, next=following
    )


async def _readable(request: Request, site: Site, review: ReviewRow) -> bool:
    conversation = (await _asked(site, review)).conversation
    readers = views.principals(site.pages.reader(request).person, conversation)
    cited = [citation["passage_id"] for citation in review.draft.get("citations", ())]
    passages = {p.id: p for p in await site.app.store.search.passages(cited, readers)} if cited else {}
    return desk_views.may_read_draft(review, readers, passages)


async def _asked(site: Site, review: ReviewRow) -> Asked:
    question = await site.app.store.conversations.question(review.question_id)
    conversation = await site.app.store.conversations.get(question.conversation_id)
    return Asked(review, question, conversation)


def _shown(had: Sequence[str]) -> int | None:
    cards = [entry.split(":")[0].removeprefix("card-") for entry in had if entry.startswith("card-")]
    return next((int(card) for card in cards if card.isdecimal()), None)
