"""Clicks and forms: reviews, passages, feedback, stopping, sharing, asking a person.

A decision is committed before it is answered; whoever clicked reads what became of it within three seconds, in a toast
that nobody else sees. What needs more room than that goes to their direct messages.
"""

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

import structlog

from bot.cards import card as review_reply
from bot.cards import narrowed
from bot.feishu.cards import edit_form, feedback_form, reject_form, review_card, too_long_to_edit
from bot.feishu.events import Clicked, clicked
from bot.feishu.markdown import Json, pages, units
from bot.feishu.render import card, said, small
from bot.feishu.send import FeishuHouse
from bot.messages import CHOICES, Action, Change, NotTaken, Reply
from bot.review import Acted
from store.conversations import TERMINAL, QuestionRow
from store.deliveries import NewDelivery
from store.errors import NotFound, StoreError
from store.reviews import ReviewRow

if TYPE_CHECKING:
    from bot.app import App

log = structlog.get_logger(__name__)

EDIT_LETTERS = 4_000  # what four or five inputs hold; longer drafts are corrected by answering the card

Answer = Mapping[str, Any]


class Clicks:
    def __init__(
        self, app: "App", house: FeishuHouse, later: Callable[[Coroutine[Any, Any, Any]], None]
    ) -> None:
        self._app, self._house, self._later = app, house, later
        self._words, self._language = app.words, app.settings.review.language
        self._noted = False
        self._table: Mapping[str, Callable[[Clicked], Coroutine[Any, Any, Answer]]] = {
            "approve": self._decide,
            "claim": self._decide,
            "release": self._decide,
            "edit": self._open,
            "reject": self._open,
            "open": self._open,
            "edit:send": self._edited,
            "edit:confirm": self._confirmed,
            "reject:send": self._rejected,
            "passage": self._passage,
            "helpful": self._helpful,
            "unhelpful": self._unhelpful,
            "feedback:send": self._reason,
            "stop": self._stop,
            "person": self._person,
            "share": self._share,
            "again": self._again,
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
            return self._toast("slack.failed", "error")

    def busy(self) -> Answer:
        """It takes longer than Feishu waits; it goes on, and the card will say what became of it."""
        return self._toast("feishu.busy", "info")

    def _toast(self, key: str, kind: str = "success", **values: object) -> Answer:
        return _toast(self._words(self._language, key, **values), kind)

    # --- reviews

    async def _decide(self, click: Clicked) -> Answer:
        return await self._outcome(await self._act(click, click.do))

    async def _act(self, click: Clicked, verb: Any, **more: str) -> Acted:
        return await self._app.reviewing.act(
            Action(
                "feishu",
                int(click.value["review"]),
                str(click.value["version"]),
                f"feishu:{click.user}",
                verb,
                **more,
            )
        )

    async def _outcome(self, acted: Acted, *, close: bool = False) -> Answer:
        """The toast; with `close`, the form that was sent says it too and can be sent no more."""
        review = acted.review
        state = self._words(self._language, f"review.state.{review.state}") if review else ""
        by = (review.decided_by or review.claimed_by or "") if review else ""
        who = (await self._house.setting({by})).name(by) if by else ""
        text = self._words(self._language, f"review.{acted.key}", state=state, who=who)
        toast = _toast(text, "success" if acted.changed else "warning")
        return {**toast, **_closed(text)} if close else toast

    async def _open(self, click: Clicked) -> Answer:
        """A form, or the whole draft, for one reviewer: their direct messages are where nobody else looks."""
        review = await self._app.store.reviews.find(int(click.value["review"]))
        key = await self._unreadable(click, review)
        if key or review is None:
            return await self._outcome(Acted(key or "gone", review))
        await self._app.store.reviews.saw(review.id, f"feishu:{click.user}")
        shown = await self._form(click.do, review)
        self._later(self._hand_over(click, shown))
        return self._toast("feishu.sent_directly", "info")

    async def _unreadable(self, click: Clicked, review: ReviewRow | None) -> str:
        """Why this person may not open the review: "", forbidden, gone, late or stale."""
        if not await self._app.reviewing.reviewer(f"feishu:{click.user}"):
            return "forbidden"
        if review is None or review.state == "withdrawn":
            return "gone"
        if review.state != "pending":
            return "late"
        if review.version_hash != click.value["version"]:
            return "stale"
        return "narrowed" if await narrowed(self._app.store, review) else ""

    async def _form(self, verb: str, review: ReviewRow) -> Json:
        owner, setting = {"review": review.id, "version": review.version_hash}, await self._house.setting()
        if verb == "reject":
            return reject_form(owner, setting, self._language)
        if verb == "edit":
            text = str(review.draft["text"])
            if len(text) > EDIT_LETTERS:
                return too_long_to_edit(setting, self._language)
            return edit_form(text, owner, setting, self._language)
        question = await self._app.store.conversations.question(review.question_id)
        # One reviewer alone sees it, so that it is drawn for a reader the draft's audience has.
        reply = review_reply(review, question, review.audience[0] if review.audience else "", self._language)
        return review_card(reply, await self._house.setting({question.asker}), private=True)

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
        person, key = f"feishu:{click.user}", str(click.value["edit"])
        rows = await self._app.store.kept.get(person, "edit")
        text = next((str(row.data["text"]) for row in rows if row.key == key), "")
        if not text:
            return self._toast("feishu.card.not_yours", "warning")
        acted = await self._act(click, "edit", text=text)
        if acted.changed:
            await self._app.store.kept.drop(person, "edit", key)
        return await self._outcome(acted, close=True)

    async def _rejected(self, click: Clicked) -> Answer:
        acted = await self._act(
            click,
            "reject",
            reason=click.form["reason"],
            hint=click.form.get("hint", ""),
            question=click.form.get("question", ""),
        )
        return await self._outcome(acted, close=True)

    # --- readers

    async def _passage(self, click: Clicked) -> Answer:
        """The passage as it is now, to whoever may read it, in their direct messages."""
        language, principals = await self._reading(click)
        passage = int(click.value["passage"])
        found = await self._app.store.search.section(passage, principals) if principals else []
        shown = next((p for p in found if p.id == passage), None)
        if shown is None:
            return _toast(self._words(language, "slack.passage_gone"), "warning")
        title = " › ".join([shown.title, *shown.heading_path])
        body = "\n\n".join(p.text for p in found) if len(found) < 4 else shown.text
        first, *_more = pages(units(body)) or [said(" ")]
        page = small(self._words(language, "answer.page", page=shown.page)) if shown.page else []
        content = card([*page, *first], shown.title, title)
        self._later(self._hand_over(click, content))
        return _toast(self._words(language, "feishu.sent_directly"), "info")

    async def _reading(self, click: Clicked) -> tuple[str, tuple[str, ...]]:
        """(language, what may be read): a reader's own rights where the answer stands; a reviewer's those of the
        draft in review."""
        user = f"feishu:{click.user}"
        if "review" in click.value:
            review = await self._app.store.reviews.find(int(click.value["review"]))
            allowed = review is not None and await self._app.reviewing.reviewer(user)
            return self._language, tuple(review.audience) if review is not None and allowed else ()
        question = await self._question(click)
        if question is None:
            return self._language, ()
        place: tuple[str, ...] = ("everyone", user)
        if not question.address.get("private"):
            # The chat that the answer stands in: of the callback, or where its field is missing of our row.
            place = ("everyone", f"feishu:{click.chat or question.address.get('channel')}")
        return question.language, (*place, user) if question.asker == user else place

    async def _helpful(self, click: Clicked) -> Answer:
        await self._record(click, True)
        return self._toast("slack.thanks")

    async def _unhelpful(self, click: Clicked) -> Answer:
        await self._record(click, False)
        form = feedback_form(str(click.value["question"]), await self._house.setting(), self._language)
        self._later(self._hand_over(click, form))
        return self._toast("feishu.tell_us", "info")

    async def _reason(self, click: Clicked) -> Answer:
        reason, more = click.form["reason"], click.form.get("words", "")
        await self._record(click, False, f"{reason}: {more}" if more else reason)
        text = self._words(self._language, "slack.thanks")
        return {**_toast(text), **_closed(text)}

    async def _record(self, click: Clicked, helpful: bool, reason: str = "") -> None:
        try:
            await self._app.store.conversations.feedback(
                str(click.value["question"]), f"feishu:{click.user}", helpful, reason
            )
        except NotFound:
            log.info("feedback.gone", question=str(click.value["question"])[:40])

    async def _stop(self, click: Clicked) -> Answer:
        question = await self._own(click)
        if question is None:
            return self._toast("slack.nothing_to_stop", "warning")
        if question.state in TERMINAL:
            return self._toast("slack.too_late", "warning")
        await self._app.asking.change(
            Change("feishu", f"{question.id}:stop", question.id, question.asker, None)
        )
        return self._toast("slack.withdrawn")

    async def _again(self, click: Clicked) -> Answer:
        """Ask the edited wording anew, where the asker may."""
        outcome = await self._app.asking.again(str(click.value["question"]), f"feishu:{click.user}")
        if outcome == "asked":
            return self._toast("feishu.asked_again")
        return self._toast(f"slack.again_{outcome}", "warning")

    async def _choose(self, click: Clicked) -> Answer:
        """What the asker chooses after a time-out."""
        choice = click.do.partition(":")[2]
        became = await self._app.patience.choose(str(click.value["question"]), f"feishu:{click.user}", choice)
        return self._toast(f"patience.{became}", "success" if became.startswith("chose") else "warning")

    async def _person(self, click: Clicked) -> Answer:
        """Pass a question on to the review channels, once."""
        question = await self._question(click)
        if question is None or not self._app.settings.review.channels:
            contact = self._app.settings.workspace.contact
            return self._toast("slack.nobody", "warning", contact=contact)
        self._later(self._pass_on(click, question))
        return self._toast("slack.asked_person")

    async def _pass_on(self, click: Clicked, question: QuestionRow) -> None:
        user = f"feishu:{click.user}"
        who = (await self._house.setting({user})).name(user)
        wanted = self._words(self._language, "slack.person_wanted", who=who)
        quoted = "\n".join(f"> {line}" for line in question.text.splitlines())
        reply = Reply("notice", f"{wanted}\n\n{quoted}", self._language, meta={"question_id": question.id})
        for place in self._app.settings.review.channels:
            platform, _, channel = place.partition(":")
            await self._app.deliverer.deliver(
                NewDelivery(
                    purpose=f"person:{question.id}:{place}",
                    platform=platform,
                    kind="notice",
                    address={"channel": channel},
                    content=reply.to_json(),
                    question_id=question.id,
                )
            )

    async def _share(self, click: Clicked) -> Answer:
        """Show a private answer to a group, where everybody there may read every document it cites."""
        question, chat = await self._own(click), str(click.value["to"])
        if question is None or question.answer is None:
            return self._toast("slack.failed", "warning")
        answer = Reply.from_json(question.answer)
        if not await self._may_share(answer, chat):
            return self._toast("slack.not_shared", "warning")
        who = (await self._house.setting({question.asker})).name(question.asker)
        by = self._words(question.language, "slack.shared_by", who=who)
        quoted = "\n".join(f"> {line}" for line in question.text.splitlines())
        text = f"{by}\n\n{quoted}\n\n{answer.text}"
        reply = Reply(answer.kind, text, answer.language, answer.citations, answer.meta)
        self._later(
            self._app.deliverer.deliver(
                NewDelivery(
                    purpose=f"share:{question.id}:{chat}",
                    platform="feishu",
                    kind="answer",
                    # Below the message that it was asked with: a message of its own would be a topic nobody began.
                    address={
                        "channel": chat, "message": question.address.get("asked"), "thread": True, "user": click.user,
                    },
                    content=reply.to_json(),
                    question_id=question.id,
                )
            )
        )  # fmt: skip
        return self._toast("slack.shared")

    async def _may_share(self, answer: Reply, chat: str) -> bool:
        if await self._house.people.shared(chat):
            return False
        cited = {int(citation["passage_id"]) for citation in answer.citations}
        found = await self._app.store.search.passages(sorted(cited), ("everyone", f"feishu:{chat}"))
        return {passage.id for passage in found} == cited

    async def _own(self, click: Clicked) -> QuestionRow | None:
        """The question that a button belongs to, where it is the clicker's."""
        question = await self._question(click)
        return question if question is not None and question.asker == f"feishu:{click.user}" else None

    async def _question(self, click: Clicked) -> QuestionRow | None:
        try:
            return await self._app.store.conversations.question(str(click.value["question"]))
        except NotFound:
            return None


def _toast(text: str, kind: str = "success") -> Answer:
    return {"toast": {"type": kind, "content": text[:200]}}


def _closed(text: str) -> Answer:
    """The card that was clicked, over: it says what became of it and has no live button."""
    return {"card": {"type": "raw", "data": card(said(text), text)}}
