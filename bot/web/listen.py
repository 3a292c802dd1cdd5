"""The asker's side: requests become Incoming and Change."""

from datetime import UTC, datetime

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from bot.messages import CHOICES, Change, Incoming, Reply
from bot.web import views
from bot.web.door import Handler, Site, by_htmx, field, needs, posted, seen
from bot.web.pages import NONCE, Said
from bot.web.people import PLATFORM
from bot.web.threads import (
    BASES,
    ask_box,
    conversation_of,
    place_of_address,
    private_place,
    question_of,
    turns,
)
from bot.web.views import Place
from bot.web.visitor import visitor
from store.conversations import ConversationRow, QuestionRow
from store.deliveries import NewDelivery
from store.text import clean

MOST_TEXTS = 2


def routes() -> list[Route]:
    def post(path: str, handler: Handler) -> Route:
        return Route(path, needs("person", handler), methods=["POST"])

    return [
        post("/ask", ask),
        *(post(f"/q/{{question}}/{verb}", handler) for verb, handler in VERBS.items()),
        *(post(base + "/ask", ask) for base in BASES),
        *(post(base + "/t/{thread}/ask", ask) for base in BASES),
    ]


# --- asking ----------------------------------------------------------------------------------------------------


async def ask(request: Request, site: Site) -> Response:
    """A new thread, or a follow-up in one. The nonce is the message's identity, and a new thread's too: the same
    form sent twice is one question in one thread."""
    form = await posted(request)
    nonce = field(form, "nonce")
    if not NONCE.fullmatch(nonce):
        raise HTTPException(400, "form")
    place = _place_asked(request, site, form)
    thread = request.path_params.get("thread", nonce)
    if "thread" in request.path_params:
        await conversation_of(request, site)
    texts = [clean(text).strip() for text in form.getlist("text") if isinstance(text, str)][:MOST_TEXTS]
    longest = site.app.settings.workspace.question_characters
    if not texts or not all(texts) or any(len(text) > longest for text in texts):
        raise HTTPException(400, "empty" if not all(texts) or not texts else "long")
    for position, text in enumerate(texts):
        await _accept(request, site, place, thread, (f"ask:{nonce}:{position}", text))
    if by_htmx(request) and "thread" in request.path_params:
        return await _answer_in_thread(request, site, form, fresh_box=True)
    return RedirectResponse(f"{visitor(request).base}{place.href}/t/{thread}", status_code=303)


async def _accept(request: Request, site: Site, place: Place, thread: str, said: tuple[str, str]) -> None:
    key, text = said
    conversation_id = place.prefix + thread
    accepted = await site.app.asking.accept(
        Incoming(
            platform=PLATFORM,
            dedupe_key=key,
            conversation_id=conversation_id,
            channel=place.channel,
            thread=thread,
            private=place.private,
            asker=site.pages.reader(request).person.principal,
            text=text,
            sent_at=datetime.now(UTC),
        )
    )
    if accepted:
        await _tell(site, conversation_id, accepted)


async def _answer_in_thread(
    request: Request, site: Site, form: FormData, *, fresh_box: bool = False, said: Said | None = None
) -> Response:
    conversation = await conversation_of(request, site)
    extra = None
    if fresh_box:
        place = views.place_of(conversation)
        action = f"{visitor(request).base}{place.href}/t/{conversation.thread}/ask"
        extra = site.pages.fragment(request, "ask.html", **ask_box(site, action, in_thread=True, swap=True))
    blocks = await turns(request, site, conversation)
    return site.pages.changes(request, blocks, seen(request, form), said=said, extra=extra)


# --- what can be done with a question --------------------------------------------------------------------------


async def edit(request: Request, site: Site) -> Response:
    """The new wording is a question of its own; the old one, and a draft in review with it, is over."""
    form = await posted(request)
    question, conversation = await _own(request, site)
    text = clean(field(form, "text")).strip()
    if not text:
        raise HTTPException(400, "empty")
    key = f"edit:{question.id}"
    await site.app.asking.change(Change(PLATFORM, key, question.id, question.asker, text, ask=True))
    return await _changed(request, site, form, conversation)


async def delete(request: Request, site: Site) -> Response:
    form = await posted(request)
    question, conversation = await _own(request, site)
    await site.app.asking.change(Change(PLATFORM, f"delete:{question.id}", question.id, question.asker, None))
    return await _changed(request, site, form, conversation)


async def again(request: Request, site: Site) -> Response:
    """A question that was stopped, refused or edited elsewhere is asked once more in the same thread."""
    form = await posted(request)
    question, conversation = await _own(request, site)
    await site.app.asking.again(question.id, question.asker)
    return await _changed(request, site, form, conversation)


async def feedback(request: Request, site: Site) -> Response:
    form = await posted(request)
    question, conversation = await question_of(request, site)
    person = site.pages.reader(request).person
    helpful = field(form, "helpful") == "yes"
    reason = clean(field(form, "reason")).strip()[:500]
    await site.app.store.conversations.feedback(question.id, person.principal, helpful, reason)
    return await _changed(request, site, form, conversation, said="feedback.kept" if reason else "")


async def person(request: Request, site: Site) -> Response:
    """Ask a person: a visible notice in the thread, addressed to whom the settings name."""
    form = await posted(request)
    question, conversation = await _own(request, site)
    contact = site.app.settings.workspace.contact
    if contact:
        reader = site.pages.reader(request)
        words = site.pages.say(question.language)
        text = words("web.turn.person_notice", contact=contact, who=reader.name(question.asker))
        await site.deliverer.deliver(
            NewDelivery(
                purpose=f"person:{question.id}",
                platform=PLATFORM,
                kind="notice",
                content=Reply("notice", text, question.language).to_json(),
                conversation_id=conversation.id,
                question_id=question.id,
            )
        )
    return await _changed(request, site, form, conversation)


async def choose(request: Request, site: Site) -> Response:
    """What the asker chooses after a time-out."""
    form = await posted(request)
    question, conversation = await _own(request, site)
    if field(form, "choice") not in CHOICES:
        raise HTTPException(400, "form")
    became = await site.app.patience.choose(question.id, question.asker, field(form, "choice"))
    await _tell(site, conversation.id, question.id)
    if by_htmx(request):
        reader = site.pages.reader(request)
        said = Said(reader.words(f"patience.{became}"), "good" if became.startswith("chose") else "bad")
        return await _answer_in_thread(request, site, form, said=said)
    return await _changed(request, site, form, conversation)


VERBS = {
    "choose": choose,
    "edit": edit,
    "delete": delete,
    "stop": delete,  # what is not answered yet is withdrawn: nothing is sent
    "again": again,
    "feedback": feedback,
    "person": person,
}


# --- finding and telling ---------------------------------------------------------------------------------------


def _place_asked(request: Request, site: Site, form: FormData) -> Place:
    if request.url.path != f"{visitor(request).base}/ask":
        return place_of_address(request, site)
    channel = field(form, "channel")
    if not channel:
        return private_place(request, site)
    if channel not in site.app.settings.workspace.channels:
        raise HTTPException(404)
    return Place(channel, private=False)


async def _own(request: Request, site: Site) -> tuple[QuestionRow, ConversationRow]:
    question, conversation = await question_of(request, site)
    if question.asker != site.pages.reader(request).person.principal:
        raise HTTPException(403, "own")
    return question, conversation


async def _changed(
    request: Request, site: Site, form: FormData, conversation: ConversationRow, said: str = ""
) -> Response:
    await _tell(site, conversation.id, request.path_params["question"])
    if by_htmx(request):
        reader = site.pages.reader(request)
        return await _answer_in_thread(
            request, site, form, said=Said(reader.t(said), "good") if said else None
        )
    place = views.place_of(conversation)
    return RedirectResponse(f"{visitor(request).base}{place.href}/t/{conversation.thread}", status_code=303)


async def _tell(site: Site, conversation_id: str, question_id: str) -> None:
    """Other open pages of this conversation ask again."""
    await site.app.store.changes.notify(f"conversation:{conversation_id}", {"question": question_id})
