"""Clicks and forms: from Slack's payloads to what was wanted, and what became of it back to whoever clicked.

A decision is committed before it is acknowledged; whoever clicked is always told what became of it, in private.
A modal opens before anything is read: its trigger lives three seconds from Slack's side.
"""

import re
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

import structlog
from slack_bolt.async_app import AsyncApp

from bot import telling
from bot.buttons import Buttons, Said
from bot.cards import card
from bot.messages import AGAIN, CHOICES, Action, NotTaken
from bot.review import Acted
from bot.slack import views
from bot.slack.render import neutral
from bot.slack.send import SlackHouse
from rag_graph.contracts import Passage
from store.reviews import ReviewRow
from store.text import language as language_of

if TYPE_CHECKING:
    from bot.app import App

log = structlog.get_logger(__name__)

Later = Callable[[Coroutine[Any, Any, Any]], None]
Body = dict[str, Any]


class Clicks:
    def __init__(self, app: "App", house: SlackHouse, buttons: Buttons, later: Later) -> None:
        self._app, self._house, self._buttons, self._later = app, house, buttons, later
        self._words = app.words
        self._language = app.settings.review.language

    def bind(self, bolt: AsyncApp) -> None:
        bolt.action(re.compile(r"^review:(approve|claim|release)$"))(self._decide)
        bolt.action(re.compile(r"^review:(edit|reject|open|pass_on)$"))(self._open)
        bolt.view("review:edit")(self._edited)
        bolt.view("review:reject")(self._rejected)
        bolt.view("review:pass_on")(self._passed_on)
        bolt.action(re.compile(r"^passage:\d+$"))(self._passage)
        bolt.action("feedback")(self._feedback)
        bolt.view("feedback")(self._reason)
        bolt.action("stop")(self._stop)
        bolt.action("person")(self._person)
        bolt.action("share")(self._share)
        bolt.action(AGAIN)(self._again)
        bolt.action(re.compile(rf"^choice:({'|'.join(CHOICES)})$"))(self._choose)

    # --- reviews

    async def _decide(self, ack: Any, body: Body) -> None:
        """Approve, claim, release: committed, then acknowledged, then told."""
        action = body["actions"][0]
        acted = await self._act(body, action["value"], action["action_id"].split(":")[1])
        await ack()
        self._later(self._tell(body, acted))

    async def _act(self, body: Body, handle: str, verb: Any, **more: str) -> Acted:
        review_id, version_hash = _handle(handle)
        if await self._refused(body):
            return Acted("forbidden", None)
        return await self._app.reviewing.act(
            Action("slack", review_id, version_hash, _principal(body), verb, **more)
        )

    async def _refused(self, body: Body) -> bool:
        """Guests, strangers and programs do nothing here, whatever list they stand on."""
        user = body["user"]
        return bool(await self._house.people.refusal(user["id"], tuple(filter(None, (user.get("team_id"),)))))

    async def _tell(self, body: Body, acted: Acted) -> None:
        await self._answer(body, await self._told(acted))

    async def _told(self, acted: Acted, to: str = "") -> str:
        review = acted.review
        by = {review.decided_by or review.claimed_by or "", to} if review else set()
        return telling.told(self._words, self._language, acted, await self._house.setting(by), to)

    async def _open(self, ack: Any, body: Body) -> None:
        """A modal for one reviewer: something to look at at once, then the draft as its row is now."""
        action = body["actions"][0]
        shown = await self._loading(ack, body, self._language)
        if shown is None:
            return
        review_id, version_hash = _handle(action["value"])
        verb, acted = action["action_id"].split(":")[1], Acted("forbidden", None)
        if not await self._refused(body):
            acted = await self._app.reviewing.look(
                review_id, version_hash, _principal(body), draft=verb != "pass_on"
            )
        if acted.key == "open" and acted.review is not None:
            view = await self._view(verb, acted.review)
        else:
            setting = await self._house.setting()
            view = views.sentence(setting, self._language, await self._told(acted))
        await self._update(shown, view)

    async def _view(self, verb: str, review: ReviewRow) -> dict[str, Any]:
        handle, language = f"{review.id}:{review.version_hash}", self._language
        if verb == "pass_on":
            others = await self._app.reviewing.others(review.id)
            setting = await self._house.setting(set(others))
            if not others:
                return views.sentence(setting, language, self._words(language, "chat.pass_on.nobody"))
            return views.pass_on(others, handle, setting, language)
        setting = await self._house.setting()
        if verb == "edit":
            return views.edit(review.draft["text"], handle, setting, language)
        if verb == "reject":
            return views.reject(handle, setting, language)
        question = await self._app.store.conversations.question(review.question_id)
        # One reviewer alone sees it, so that it is drawn for a reader the draft's audience has.
        reply = card(review, question, review.audience[0] if review.audience else "", language)
        return views.draft(reply, await self._house.setting(telling.people(reply)))

    async def _edited(self, ack: Any, body: Body) -> None:
        values = body["view"]["state"]["values"]
        parts = [values[f"text{number}"] for number in range(len(values)) if f"text{number}" in values]
        text = "\n".join(next(iter(part.values())).get("value") or "" for part in parts)
        acted = await self._act(body, body["view"]["private_metadata"], "edit", text=text)
        if acted.key == "empty":
            await ack(response_action="errors", errors={"text0": self._words(self._language, "review.empty")})
            return
        await self._concluded(ack, acted)

    async def _rejected(self, ack: Any, body: Body) -> None:
        values = body["view"]["state"]["values"]
        reason = values["reason"]["reason"]["selected_option"]["value"]
        hint = values["hint"]["hint"].get("value") or ""
        question = values["question"]["question"].get("value") or ""
        handle = body["view"]["private_metadata"]
        acted = await self._act(body, handle, "reject", reason=reason, hint=hint, question=question)
        await self._concluded(ack, acted)

    async def _passed_on(self, ack: Any, body: Body) -> None:
        to = body["view"]["state"]["values"]["to"]["to"]["selected_option"]["value"]
        acted = await self._act(body, body["view"]["private_metadata"], "reassign", to=to)
        await self._concluded(ack, acted, to)

    async def _concluded(self, ack: Any, acted: Acted, to: str = "") -> None:
        view = views.sentence(await self._house.setting(), self._language, await self._told(acted, to))
        await ack(response_action="update", view=view)

    # --- readers

    async def _passage(self, ack: Any, body: Body) -> None:
        owner, _, value = body["actions"][0]["value"].partition(":")
        passage, reviewed = int(value), owner.startswith("r") and owner[1:].isdigit()
        shown = await self._loading(ack, body, self._language if reviewed else self._spoken(body))
        if shown is None:
            return
        language, found = self._language, list[Passage]()
        if not await self._refused(body):
            channel = str((body.get("channel") or {}).get("id") or "")
            language, found = await self._buttons.passage(
                passage,
                _principal(body),
                question="" if reviewed else owner,
                review=int(owner[1:]) if reviewed else 0,
                channel="" if channel.startswith("D") else channel,
            )
        setting = await self._house.setting()
        if found:
            await self._update(shown, views.passage(found, passage, setting, language))
        else:
            gone = self._words(language, "chat.passage_gone")
            await self._update(shown, views.sentence(setting, language, gone))

    async def _feedback(self, ack: Any, body: Body) -> None:
        opinion, _, question_id = body["actions"][0]["value"].partition(":")
        helpful = opinion == "up"
        if not helpful:  # the form needs nothing from the database, so that it opens as it is
            setting = await self._house.setting()
            view = views.feedback(question_id, setting, self._spoken(body))
            await self._try(self._house.calls.client.views_open, trigger_id=body["trigger_id"], view=view)
        said = await self._said(body, self._buttons.feedback(question_id, _principal(body), helpful))
        await ack()
        if helpful:
            self._later(self._answer(body, said.text))

    async def _reason(self, ack: Any, body: Body) -> None:
        values = body["view"]["state"]["values"]
        reason = values["reason"]["reason"]["selected_option"]["value"]
        more = values["words"]["words"].get("value") or ""
        question_id = body["view"]["private_metadata"]
        why = f"{reason}: {more}" if more else reason
        await self._said(body, self._buttons.feedback(question_id, _principal(body), False, why))
        await ack()

    async def _stop(self, ack: Any, body: Body) -> None:
        said = await self._said(body, self._buttons.stop(_question(body), _principal(body)))
        await ack()
        self._later(self._answer(body, said.text))

    async def _person(self, ack: Any, body: Body) -> None:
        await ack()
        wanted = self._buttons.person(_question(body), _principal(body))
        self._later(self._answered(body, wanted))

    async def _again(self, ack: Any, body: Body) -> None:
        said = await self._said(body, self._buttons.again(_question(body), _principal(body)))
        await ack()
        if not said.good:
            self._later(self._answer(body, said.text))

    async def _choose(self, ack: Any, body: Body) -> None:
        """What the asker chooses after a time-out."""
        choice = body["actions"][0]["action_id"].split(":")[1]
        said = await self._said(body, self._buttons.choose(_question(body), _principal(body), choice))
        await ack()
        self._later(self._answer(body, said.text))

    async def _share(self, ack: Any, body: Body) -> None:
        await ack()
        channel = body["actions"][0]["value"].partition(":")[2]
        self._later(self._answered(body, self._buttons.share(_question(body), _principal(body), channel, {})))

    async def _said(self, body: Body, work: Coroutine[Any, Any, Said]) -> Said:
        """What became of `work`, which is done for members only."""
        if await self._refused(body):
            work.close()
            return Said(self._words(self._spoken(body), "chat.guests"), good=False)
        return await work

    async def _answered(self, body: Body, work: Coroutine[Any, Any, Said]) -> None:
        await self._answer(body, (await self._said(body, work)).text)

    # --- answering the clicker

    def _spoken(self, body: Body) -> str:
        """The language of the message that was clicked: its asker's."""
        text = str((body.get("message") or {}).get("text") or "")
        return language_of(text) if text else self._language

    async def _answer(self, body: Body, text: str) -> None:
        """Say something to the one who clicked, and to nobody else."""
        if body.get("view"):
            view = views.sentence(await self._house.setting(), self._language, text)
            await self._update(body["view"], view)
        elif body.get("response_url"):
            said = {"response_type": "ephemeral", "replace_original": False, "text": neutral(text)}
            await self._house.calls.respond(body["response_url"], said)

    async def _loading(self, ack: Any, body: Body, language: str) -> Mapping[str, Any] | None:
        """Open, or push, a view that says "one moment"; None when the trigger came too late, which is said."""
        client = self._house.calls.client
        view = views.loading(await self._house.setting(), language)
        opening = client.views_push if body.get("view") else client.views_open
        answer = await self._try(opening, trigger_id=body["trigger_id"], view=view)
        await ack()
        if answer is None:
            self._later(self._answer(body, self._words(language, "chat.failed")))
            return None
        shown: Mapping[str, Any] = answer["view"]
        return shown

    async def _update(self, shown: Mapping[str, Any], view: Mapping[str, Any]) -> None:
        await self._try(
            self._house.calls.client.views_update, view_id=shown["id"], hash=shown.get("hash"), view=view
        )

    async def _try(self, method: Any, **arguments: Any) -> Mapping[str, Any] | None:
        try:
            return await self._house.calls(method, **arguments)
        except (NotTaken, OSError) as error:
            log.warning("view.lost", error=str(error))
            return None


def _principal(body: Body) -> str:
    return f"slack:{body['user']['id']}"


def _handle(value: str) -> tuple[int, str]:
    """What a review's button carries: its number, and the draft that it was drawn for."""
    review_id, _, version_hash = value.partition(":")
    return int(review_id), version_hash


def _question(body: Body) -> str:
    """The question that a button belongs to."""
    question_id: str = body["actions"][0]["value"].partition(":")[0]
    return question_id
