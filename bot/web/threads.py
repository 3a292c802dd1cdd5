"""Threads as people read them: the lists, one thread with its live stream, and the passage behind a citation."""

import re
from collections.abc import Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from bot.messages import Reply
from bot.web import views
from bot.web.door import Handler, Site, by_htmx, feed, needs, seen
from bot.web.pages import Block
from bot.web.people import PLATFORM
from bot.web.send import Live
from bot.web.views import PRIVATE, Facts, Place, Reader
from bot.web.visitor import visitor
from store.conversations import ConversationRow, QuestionRow
from store.errors import NotFound

IDENTITY = re.compile(r"[A-Za-z0-9_-]{1,64}")
RECENT, LISTED = 6, 50
SUGGESTIONS = ("answer", "follow", "held")
BASES = ("/c/{channel}", "/me")


def routes() -> list[Route]:
    def get(path: str, handler: Handler) -> Route:
        return Route(path, needs("person", handler), methods=["GET"])

    found = [
        get("/", home),
        get("/home/changes", home_changes),
        get("/home/events", home_events),
        get("/q/{question}/source/{number:int}", source),
    ]
    for base in BASES:
        thread = base + "/t/{thread}"
        found += [
            get(base, channel_page),
            get(base + "/changes", channel_changes),
            get(base + "/events", channel_events),
            get(thread, thread_page),
            get(thread + "/changes", thread_changes),
            get(thread + "/events", thread_events),
        ]
    return found


# --- lists of threads ------------------------------------------------------------------------------------------


async def home(request: Request, site: Site) -> Response:
    reader = site.pages.reader(request)
    # They ask the sample handbook, and make no sense once it was taken out.
    titles = await site.app.store.search.titles(["everyone", reader.person.principal])
    suggestions = [
        {
            "kind": kind,
            "nonce": site.pages.nonce(),
            "texts": reader.t(f"home.suggest.{kind}").split("\n"),
        }
        for kind in SUGGESTIONS
        if reader.t("home.sample") in titles
    ]
    return site.pages.page(
        request,
        "home.html",
        room="ask",
        place=None,
        suggestions=suggestions,
        blocks=site.pages.blocks(request, await _recent(request, site)),
        **ask_box(site, f"{reader.base}/ask", choose=True),
    )


async def home_changes(request: Request, site: Site) -> Response:
    return site.pages.changes(request, await _recent(request, site), seen(request))


async def home_events(request: Request, site: Site) -> Response:
    return feed(site, [f"conversation:{PLATFORM}:", "reviews"])


async def channel_page(request: Request, site: Site) -> Response:
    place = place_of_address(request, site)
    address = visitor(request).base + place.href
    return site.pages.page(
        request,
        "channel.html",
        room="ask",
        place=place,
        address=address,
        blocks=site.pages.blocks(request, await _threads(request, site, place)),
        **ask_box(site, f"{address}/ask"),
    )


async def channel_changes(request: Request, site: Site) -> Response:
    return site.pages.changes(
        request, await _threads(request, site, place_of_address(request, site)), seen(request)
    )


async def channel_events(request: Request, site: Site) -> Response:
    return feed(site, [f"conversation:{place_of_address(request, site).prefix}", "reviews"])


async def _recent(request: Request, site: Site) -> list[Block]:
    reader = site.pages.reader(request)
    rows = await site.app.store.conversations.list(PLATFORM)
    mine = [row for row in rows if views.may_read(row, reader.person, site.app.settings.workspace.channels)]
    return [await _list(request, site, mine[:RECENT], show_channel=True)]


async def _threads(request: Request, site: Site, place: Place) -> list[Block]:
    rows = await site.app.store.conversations.list(PLATFORM, place.channel, limit=LISTED)
    return [await _list(request, site, rows, show_channel=False)]


async def _list(
    request: Request, site: Site, rows: Sequence[ConversationRow], *, show_channel: bool
) -> Block:
    waiting = await site.app.store.conversations.waiting([row.id for row in rows])
    links = [views.thread_link(row, show_channel=show_channel, waiting=row.id in waiting) for row in rows]
    return site.pages.block(request, "threads.html", "threads", threads=links)


# --- one thread ------------------------------------------------------------------------------------------------


async def thread_page(request: Request, site: Site) -> Response:
    conversation = await conversation_of(request, site)
    place = views.place_of(conversation)
    address = f"{visitor(request).base}{place.href}/t/{conversation.thread}"
    blocks = await turns(request, site, conversation)
    return site.pages.page(
        request,
        "thread.html",
        room="ask",
        place=place,
        title=conversation.title,
        address=address,
        blocks=site.pages.blocks(request, blocks),
        **ask_box(site, f"{address}/ask", in_thread=True),
    )


async def thread_changes(request: Request, site: Site) -> Response:
    conversation = await conversation_of(request, site)
    return site.pages.changes(request, await turns(request, site, conversation), seen(request))


async def thread_events(request: Request, site: Site) -> Response:
    conversation = await conversation_of(request, site)
    reader = site.pages.reader(request)

    def draw(live: Live) -> str:
        turn = {"id": live.question_id, "live": views.progress(live, reader)}
        return site.pages.fragment(request, "step.html", turn=turn)

    return feed(site, [f"conversation:{conversation.id}", "reviews"], draw)


async def turns(request: Request, site: Site, conversation: ConversationRow) -> list[Block]:
    reader = site.pages.reader(request)
    found = await _facts(site, conversation, reader)
    return [
        site.pages.block(
            request,
            "turn.html",
            f"q-{facts.question.id}",
            turn=views.turn(facts, reader),
            reviewer_href="/~reviewer/review" if site.people.personas and not reader.person.reviewer else "",
        )
        for facts in found
    ]


async def _facts(site: Site, conversation: ConversationRow, reader: Reader) -> list[Facts]:
    store = site.app.store
    questions = await store.conversations.questions(conversation.id)
    deliveries = await store.deliveries.for_conversation(conversation.id)
    opinions = await store.conversations.feedback_by(conversation.id, reader.person.principal)
    return [
        Facts(
            question=question,
            deliveries=[row for row in deliveries if row.question_id == question.id],
            reviews=await store.reviews.for_question(question.id) if question.state == "held" else (),
            live=site.broadcast.live(question.id),
            feedback=next((row for row in opinions if row.question_id == question.id), None),
            contact=site.app.settings.workspace.contact,
        )
        for question in questions
    ]


async def source(request: Request, site: Site) -> Response:
    """The exact passage behind a citation, for whoever may read it now."""
    question, conversation = await question_of(request, site)
    number = request.path_params["number"]
    rows = await site.app.store.deliveries.for_question(question.id)
    replies = [Reply.from_json(row.content) for row in rows if row.purpose == f"answer:{question.id}"]
    cited = [c for reply in replies for c in reply.citations if c["number"] == number]
    if not cited or question.state in views.GONE:
        raise HTTPException(404)
    readers = views.principals(site.pages.reader(request).person, conversation)
    search = site.app.store.search
    passage_id = cited[0]["passage_id"]
    passages = await search.passages([passage_id], readers)
    section = await search.section(passage_id, readers) if passages else []
    view = views.passage(cited[0], section or passages)
    if by_htmx(request):
        return HTMLResponse(site.pages.fragment(request, "passage.html", view=view))
    return site.pages.page(request, "passage_page.html", room="ask", view=view)


# --- finding and telling ---------------------------------------------------------------------------------------


def place_of_address(request: Request, site: Site) -> Place:
    """The channel in the address, or the visitor's own private space. Raises 404."""
    channel = request.path_params.get("channel")
    if channel is None:
        return private_place(request, site)
    if channel not in site.app.settings.workspace.channels:
        raise HTTPException(404)
    return Place(channel, private=False)


def private_place(request: Request, site: Site) -> Place:
    return Place(PRIVATE + site.pages.reader(request).person.name, private=True)


async def conversation_of(request: Request, site: Site) -> ConversationRow:
    """The conversation of the address, or of the question in it. Raises 404 where this visitor may not read it:
    whether it exists is nobody else's business."""
    if "question" in request.path_params:
        return (await question_of(request, site))[1]
    thread = request.path_params["thread"]
    if not IDENTITY.fullmatch(thread):
        raise HTTPException(404)
    return await _readable(request, site, place_of_address(request, site).prefix + thread)


async def _readable(request: Request, site: Site, conversation_id: str) -> ConversationRow:
    try:
        conversation = await site.app.store.conversations.get(conversation_id)
    except NotFound:
        raise HTTPException(404) from None
    channels: Sequence[str] = site.app.settings.workspace.channels
    if not views.may_read(conversation, site.pages.reader(request).person, channels):
        raise HTTPException(404)
    return conversation


async def question_of(request: Request, site: Site) -> tuple[QuestionRow, ConversationRow]:
    question_id = request.path_params["question"]
    if not IDENTITY.fullmatch(question_id):
        raise HTTPException(404)
    question = await site.app.store.conversations.question(question_id)
    return question, await _readable(request, site, question.conversation_id)


def ask_box(
    site: Site, action: str, *, choose: bool = False, in_thread: bool = False, swap: bool = False
) -> dict[str, Any]:
    return {
        "action": action,
        "choose": choose,
        "in_thread": in_thread,
        "swap": swap,
        "nonce": site.pages.nonce(),
    }
