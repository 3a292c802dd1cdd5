"""Clicks and forms: from Feishu's callbacks to what was wanted, and what became of it back to whoever clicked.

A decision is committed before it is answered; whoever clicked reads what became of it within three seconds, in a toast
that nobody else sees. What needs more room than that goes to their direct messages.
"""

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

import structlog

from bot import telling
from bot.buttons import Buttons, Said
from bot.cards import card as review_reply
from bot.feishu.cards import edit_form, feedback_form, notice, pass_on_form, reject_form, review_card
from bot.feishu.events import Clicked, clicked
from bot.feishu.markdown import Json, pages, units
from bot.feishu.render import card, said, small
from bot.feishu.send import FeishuHouse
from bot.messages import AGAIN, CHOICES, Action, NotTaken
from bot.review import Acted
from store.errors import StoreError
from store.reviews import ReviewRow

if TYPE_CHECKING:
    from bot.app import App

log = structlog.get_logger(__name__)

EDIT_LETTERS = 4_000  # what four or five inputs hold; longer drafts are corrected by answering the card
SURROUNDED = 4  # passages of one section that are shown together

Answer = Mapping[str, Any]


class Clicks:
    def __init__(
        self,
        app: "App",
        house: FeishuHouse,
        buttons: Buttons,
        later: Callable[[Coroutine[Any, Any, Any]], None],
    ) -> None:
        self._app, self._house, self._buttons, self._later = app, house, buttons, later
        self._words, self._language = app.words, app.settings.review.language
        self._noted = False
        self._table: Mapping[str, Callable[[Clicked], Coroutine[Any, Any, Answer]]] = {
            "approve": self._decide,
            "claim": self._decide,
            "release": self._decide,
            "edit": self._open,
            "reject": self._open,
            "pass_on": self._open,
            "open": self._open,
            "edit:send": self._edited,
            "edit:confirm": self._confirmed,
            "reject:send": self._rejected,
            "pass_on:send": self._passed_on,
            "passage": self._passage,
            "helpful": self._helpful,
            "unhelpful": self._unhelpful,
            "feedback:send": self._reason,
            "stop": self._stop,
            "person": self._person,
            "share": self._share,
            AGAIN: self._again,
            **{f"choice:{choice}": self._choose for choice in CHOICES},
        }

    async def take(self, body: Mapping[str, Any]) -> Answer:
        """The answer to a click. Never raises: a failure would be an error code in front of whoever clicked."""
        click = clicked(body)
        run = self._table.get("passage" if click.do.startswith("passage:") else click.do)
        if run is None:
            log.info("click.unknown", do=click.do[:40])
            return {}
        try:
            if await self._house.people.refusal(click.tenant):
                return self._toast("review.forbidden", "error")
            if not self._noted:  # `signoff doctor` asks whether any click ever arrived
                await self._app.store.kept.put("feishu:", "clicked", "first", {})
                self._noted = True
            return await run(click)
        except (StoreError, NotTaken, OSError, KeyError, ValueError) as error:
            log.error("click.failed", do=click.do, error=type(error).__name__)
            return self._toast("chat.failed", "error")

    def busy(self) -> Answer:
        """It takes longer than Feishu waits; it goes on, and the card will say what became of it."""
        return self._toast("feishu.busy", "info")

    def _toast(self, key: str, kind: str = "success") -> Answer:
        return _toast(self._words(self._language, key), kind)

    # --- reviews

    async def _decide(self, click: Clicked) -> Answer:
        return await self._outcome(await self._act(click, click.do))

    async def _act(self, click: Clicked, verb: Any, **more: str) -> Acted:
        review, version = int(click.value["review"]), str(click.value["version"])
        return await self._app.reviewing.act(Action("feishu", review, version, click.principal, verb, **more))

    async def _outcome(self, acted: Acted, *, close: bool = False, to: str = "") -> Answer:
        """The toast; with `close`, the form that was sent says it too and can be sent no more."""
        review = acted.review
        by = {review.decided_by or review.claimed_by or "", to} if review else set()
        text = telling.told(self._words, self._language, acted, await self._house.setting(by), to)
        toast = _toast(text, "success" if acted.changed else "warning")
        return {**toast, **_closed(text)} if close else toast

    async def _open(self, click: Clicked) -> Answer:
        """A form, or the whole draft, for one reviewer: their direct messages are where nobody else looks."""
        review, version = int(click.value["review"]), str(click.value["version"])
        acted = await self._app.reviewing.look(review, version, click.principal, draft=click.do != "pass_on")
        if acted.key != "open" or acted.review is None:
            return await self._outcome(acted)
        self._later(self._hand_over(click, await self._form(click.do, acted.review)))
        return self._toast("feishu.sent_directly", "info")

    async def _form(self, verb: str, review: ReviewRow) -> Json:
        words, language = self._words, self._language
        owner, setting = {"review": review.id, "version": review.version_hash}, await self._house.setting()
        if verb == "reject":
            return reject_form(owner, setting, language)
        if verb == "pass_on":
            others = await self._app.reviewing.others(review.id)
            if not others:
                return notice(words(language, "chat.pass_on.title"), words(language, "chat.pass_on.nobody"))
            return pass_on_form(others, owner, await self._house.setting(set(others)), language)
        if verb == "edit":
            text = str(review.draft["text"])
            if len(text) > EDIT_LETTERS:
                return notice(words(language, "chat.edit.title"), words(language, "feishu.card.too_long"))
            return edit_form(text, owner, setting, language)
        question = await self._app.store.conversations.question(review.question_id)
        # One reviewer alone sees it, so that it is drawn for a reader the draft's audience has.
        reply = review_reply(review, question, review.audience[0] if review.audience else "", language)
        named = await self._house.setting(telling.people(reply) | {telling.place_of(reply)})
        return review_card(reply, named, private=True)

    async def _hand_over(self, click: Clicked, shown: Json) -> None:
        if not await self._house.show(click.user, shown, f"form:{click.event}"):
            log.warning("form.lost", event=click.event)

    async def _edited(self, click: Clicked) -> Answer:
        parts = [
            click.form[f"text{number}"] for number in range(len(click.form)) if f"text{number}" in click.form
        ]
        return await self._outcome(await self._act(click, "edit", text="".join(parts)), close=True)

    async def _confirmed(self, click: Clicked) -> Answer:
        """The correction that this reviewer wrote as an answer to the card; nobody else's click sends it."""
        key = str(click.value["edit"])
        rows = await self._app.store.kept.get(click.principal, "edit")
        text = next((str(row.data["text"]) for row in rows if row.key == key), "")
        if not text:
            return self._toast("feishu.card.not_yours", "warning")
        acted = await self._act(click, "edit", text=text)
        if acted.changed:
            await self._app.store.kept.drop(click.principal, "edit", key)
        return await self._outcome(acted, close=True)

    async def _rejected(self, click: Clicked) -> Answer:
        hint, question = click.form.get("hint", ""), click.form.get("question", "")
        reason = click.form["reason"]
        acted = await self._act(click, "reject", reason=reason, hint=hint, question=question)
        return await self._outcome(acted, close=True)

    async def _passed_on(self, click: Clicked) -> Answer:
        to = click.form["to"]
        return await self._outcome(await self._act(click, "reassign", to=to), close=True, to=to)

    # --- readers

    async def _passage(self, click: Clicked) -> Answer:
        """The passage as it is now, to whoever may read it, in their direct messages."""
        passage = int(click.value["passage"])
        language, found = await self._buttons.passage(
            passage,
            click.principal,
            question=str(click.value.get("question", "")),
            review=int(click.value.get("review", 0)),
            channel=await self._channel(click),
        )
        shown = next((p for p in found if p.id == passage), None)
        if shown is None:
            return _toast(self._words(language, "chat.passage_gone"), "warning")
        title = " › ".join([shown.title, *shown.heading_path])
        body = "\n\n".join(p.text for p in found) if len(found) < SURROUNDED else shown.text
        first, *_more = pages(units(body)) or [said(" ")]
        page = small(self._words(language, "answer.page", page=shown.page)) if shown.page else []
        self._later(self._hand_over(click, card([*page, *first], shown.title, title)))
        return _toast(self._words(language, "feishu.sent_directly"), "info")

    async def _channel(self, click: Clicked) -> str:
        """The chat that the answer stands in, of the callback or, where its field is missing, of our row; "" for a
        private one."""
        question = await self._buttons.question(str(click.value.get("question", "")))
        if question is None or question.address.get("private"):
            return ""
        return click.chat or str(question.address.get("channel") or "")

    async def _helpful(self, click: Clicked) -> Answer:
        return _answer(await self._buttons.feedback(str(click.value["question"]), click.principal, True))

    async def _unhelpful(self, click: Clicked) -> Answer:
        question_id = str(click.value["question"])
        await self._buttons.feedback(question_id, click.principal, False)
        question = await self._buttons.question(question_id)
        language = question.language if question is not None else self._language
        form = feedback_form(question_id, await self._house.setting(), language)
        self._later(self._hand_over(click, form))
        return _toast(self._words(language, "feishu.tell_us"), "info")

    async def _reason(self, click: Clicked) -> Answer:
        reason, more = click.form["reason"], click.form.get("words", "")
        why = f"{reason}: {more}" if more else reason
        thanks = await self._buttons.feedback(str(click.value["question"]), click.principal, False, why)
        return {**_answer(thanks), **_closed(thanks.text)}

    async def _stop(self, click: Clicked) -> Answer:
        return _answer(await self._buttons.stop(str(click.value["question"]), click.principal))

    async def _again(self, click: Clicked) -> Answer:
        return _answer(await self._buttons.again(str(click.value["question"]), click.principal))

    async def _choose(self, click: Clicked) -> Answer:
        """What the asker chooses after a time-out."""
        choice = click.do.partition(":")[2]
        return _answer(await self._buttons.choose(str(click.value["question"]), click.principal, choice))

    async def _person(self, click: Clicked) -> Answer:
        return _answer(await self._buttons.person(str(click.value["question"]), click.principal))

    async def _share(self, click: Clicked) -> Answer:
        question = await self._buttons.question(str(click.value["question"]))
        # Below the message that it was asked with: a message of its own would be a topic nobody began.
        asked = question.address.get("asked") if question is not None else None
        below = {"message": asked, "thread": True}
        shared = self._buttons.share(
            str(click.value["question"]), click.principal, str(click.value["to"]), below
        )
        return _answer(await shared)


def _answer(said: Said) -> Answer:
    return _toast(said.text, "success" if said.good else "warning")


def _toast(text: str, kind: str = "success") -> Answer:
    return {"toast": {"type": kind, "content": text[:200]}}


def _closed(text: str) -> Answer:
    """The card that was clicked, over: it says what became of it and has no live button."""
    return {"card": {"type": "raw", "data": card(said(text), text)}}
