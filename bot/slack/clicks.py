"""Clicks and forms: reviews, passages, feedback, stopping, sharing, asking a person.

A decision is committed before it is acknowledged; whoever clicked is always told what became of it, in private.
A modal opens before anything is read: its trigger lives three seconds from Slack's side.
"""

import re
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

import structlog
from slack_bolt.async_app import AsyncApp

from bot.cards import card, narrowed
from bot.deliver import Deliverer
from bot.messages import AGAIN, Action, Change, NotTaken, Reply
from bot.review import Acted
from bot.slack import views
from bot.slack.render import neutral
from bot.slack.send import SlackHouse
from store.conversations import TERMINAL, QuestionRow
from store.deliveries import NewDelivery
from store.errors import NotFound
from store.reviews import ReviewRow

if TYPE_CHECKING:
    from bot.app import App

log = structlog.get_logger(__name__)

Later = Callable[[Coroutine[Any, Any, Any]], None]
Body = dict[str, Any]


class Clicks:
    def __init__(self, app: "App", house: SlackHouse, later: Later) -> None:
        self._app, self._house, self._later = app, house, later
        self._words = app.words
        self._language = app.settings.review.language
        self._deliverer = Deliverer(app.store.deliveries, app.store.changes, app.platforms)

    def bind(self, bolt: AsyncApp) -> None:
        bolt.action(re.compile(r"^review:(approve|claim|release)$"))(self._decide)
        bolt.action(re.compile(r"^review:(edit|reject|open)$"))(self._open)
        bolt.view("review:edit")(self._edited)
        bolt.view("review:reject")(self._rejected)
        bolt.action(re.compile(r"^passage:\d+$"))(self._passage)
        bolt.action("feedback")(self._feedback)
        bolt.view("feedback")(self._reason)
        bolt.action("stop")(self._stop)
        bolt.action("person")(self._person)
        bolt.action("share")(self._share)
        bolt.action(AGAIN)(self._again)
        bolt.action(re.compile(r"^choice:(wait|peek|person)$"))(self._choose)

    # --- reviews

    async def _decide(self, ack: Any, body: Body) -> None:
        """Approve, claim, release: committed, then acknowledged, then told."""
        action = body["actions"][0]
        acted = await self._act(body, action["value"], action["action_id"].split(":")[1])
        await ack()
        self._later(self._tell(body, acted))

    async def _act(self, body: Body, handle: str, verb: Any, **more: str) -> Acted:
        review_id, _, version_hash = handle.partition(":")
        if await self._barred(body):
            return Acted("forbidden", None)
        return await self._app.reviewing.act(
            Action("slack", int(review_id), version_hash, f"slack:{body['user']['id']}", verb, **more)
        )

    async def _refused(self, body: Body) -> bool:
        """Guests, strangers and programs decide nothing, whatever list they stand on."""
        user = body["user"]
        return bool(await self._house.people.refusal(user["id"], tuple(filter(None, (user.get("team_id"),)))))

    async def _barred(self, body: Body) -> bool:
        """Whoever has left the review channel decides no more, and sees no draft: asked at the click."""
        channels = self._house.review_channels
        if await self._refused(body):
            return True
        return bool(channels) and not await self._house.people.inside(body["user"]["id"], channels)

    async def _tell(self, body: Body, acted: Acted) -> None:
        await self._answer(body, await self._outcome(acted))

    async def _outcome(self, acted: Acted) -> str:
        review = acted.review
        state = self._words(self._language, f"review.state.{review.state}") if review else ""
        by = (review.decided_by or review.claimed_by or "") if review else ""
        names = await self._house.people.names({by})
        who = names.get(by) or by.partition(":")[2] or by
        return self._words(self._language, f"review.{acted.key}", state=state, who=who)

    async def _open(self, ack: Any, body: Body) -> None:
        """A modal for one reviewer: something to look at at once, then the draft as its row is now."""
        action = body["actions"][0]
        shown = await self._loading(ack, body)
        if shown is None:
            return
        review, problem = await self._readable(body, action["value"])
        setting = await self._house.setting()
        if review is None:
            view = views.sentence(setting, self._language, problem)
        else:
            await self._app.store.reviews.saw(review.id, f"slack:{body['user']['id']}")
            view = await self._view(action["action_id"].split(":")[1], review)
        await self._update(shown, view)

    async def _readable(self, body: Body, handle: str) -> tuple[ReviewRow | None, str]:
        """The review, where this person may decide it and its card is still what it was."""
        review_id, _, version_hash = handle.partition(":")
        review = await self._app.store.reviews.find(int(review_id))
        user = f"slack:{body['user']['id']}"
        key = ""
        if await self._barred(body) or not await self._app.reviewing.reviewer(user):
            key = "forbidden"
        elif review is None or review.state == "withdrawn":
            key = "gone"
        elif review.state != "pending":
            key = "late"
        elif review.version_hash != version_hash:
            key = "stale"
        elif await narrowed(self._app.store, review):
            key = "narrowed"
        return (None, await self._outcome(Acted(key, review))) if key else (review, "")

    async def _view(self, verb: str, review: ReviewRow) -> dict[str, Any]:
        handle, language = f"{review.id}:{review.version_hash}", self._language
        setting = await self._house.setting()
        if verb == "edit":
            return views.edit(review.draft["text"], handle, setting, language)
        if verb == "reject":
            return views.reject(handle, setting, language)
        question = await self._app.store.conversations.question(review.question_id)
        # One reviewer alone sees it, so that it is drawn for a reader the draft's audience has.
        reply = card(review, question, review.audience[0] if review.audience else "", language)
        return views.draft(reply, handle, setting, decide=True)

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

    async def _concluded(self, ack: Any, acted: Acted) -> None:
        view = views.sentence(await self._house.setting(), self._language, await self._outcome(acted))
        await ack(response_action="update", view=view)

    # --- readers

    async def _passage(self, ack: Any, body: Body) -> None:
        shown = await self._loading(ack, body)
        if shown is None:
            return
        owner, _, passage = body["actions"][0]["value"].partition(":")
        setting = await self._house.setting()
        language, principals = await self._reading(body, owner)
        found = await self._app.store.search.section(int(passage), principals) if principals else []
        if any(p.id == int(passage) for p in found):
            await self._update(shown, views.passage(found, int(passage), setting, language))
        else:
            gone = self._words(language, "slack.passage_gone")
            await self._update(shown, views.sentence(setting, language, gone))

    async def _reading(self, body: Body, owner: str) -> tuple[str, tuple[str, ...]]:
        """(language, what may be read): a reader's own rights where the answer stands; a reviewer's those of the
        draft in review."""
        user = f"slack:{body['user']['id']}"
        if owner.startswith("r") and owner[1:].isdigit():
            review = await self._app.store.reviews.find(int(owner[1:]))
            allowed = not await self._barred(body) and await self._app.reviewing.reviewer(user)
            return self._language, tuple(review.audience) if review is not None and allowed else ()
        if await self._refused(body):
            return self._language, ()
        channel = str((body.get("channel") or {}).get("id") or "")
        place = (
            ("everyone", user) if channel.startswith("D") or not channel else ("everyone", f"slack:{channel}")
        )
        try:
            question = await self._app.store.conversations.question(owner)
        except NotFound:
            return self._language, ()
        return question.language, (*place, user) if question.asker == user else place

    async def _feedback(self, ack: Any, body: Body) -> None:
        opinion, _, question_id = body["actions"][0]["value"].partition(":")
        helpful = opinion == "up"
        if not helpful:  # the form needs nothing from the database, so that it opens as it is
            setting = await self._house.setting()
            await self._try(
                self._house.calls.client.views_open,
                trigger_id=body["trigger_id"],
                view=views.feedback(question_id, setting, self._language),
            )
        if not await self._refused(body):
            await self._record(body, question_id, helpful)
        await ack()
        if helpful:
            self._later(self._answer(body, self._words(self._language, "slack.thanks")))

    async def _reason(self, ack: Any, body: Body) -> None:
        values = body["view"]["state"]["values"]
        reason = values["reason"]["reason"]["selected_option"]["value"]
        more = values["words"]["words"].get("value") or ""
        if not await self._refused(body):
            await self._record(
                body, body["view"]["private_metadata"], False, f"{reason}: {more}" if more else reason
            )
        await ack()

    async def _record(self, body: Body, question_id: str, helpful: bool, reason: str = "") -> None:
        try:
            await self._app.store.conversations.feedback(
                question_id, f"slack:{body['user']['id']}", helpful, reason
            )
        except NotFound:
            log.info("feedback.gone", question=question_id)

    async def _stop(self, ack: Any, body: Body) -> None:
        question = await self._own(body)
        key = "nothing_to_stop"
        if question is not None:
            key = "too_late" if question.state in TERMINAL else "withdrawn"
        if question is not None and key == "withdrawn":
            change = Change("slack", f"{question.id}:stop", question.id, question.asker, None)
            await self._app.asking.change(change)
        await ack()
        self._later(self._answer(body, self._words(self._language, f"slack.{key}")))

    async def _person(self, ack: Any, body: Body) -> None:
        """Pass a question on to the review channels, once."""
        question = await self._own(body, anybody=True)
        places = self._app.settings.review.channels
        await ack()
        if question is None or not places:
            contact = self._app.settings.workspace.contact
            self._later(self._answer(body, self._words(self._language, "slack.nobody", contact=contact)))
            return
        self._later(self._pass_on(body, question))

    async def _pass_on(self, body: Body, question: QuestionRow) -> None:
        user = f"slack:{body['user']['id']}"
        names = await self._house.people.names({user})
        wanted = self._words(self._language, "slack.person_wanted", who=names.get(user, user))
        quoted = "\n".join(f"> {line}" for line in question.text.splitlines())
        reply = Reply("notice", f"{wanted}\n\n{quoted}", self._language, meta={"question_id": question.id})
        for place in self._app.settings.review.channels:
            platform, _, channel = place.partition(":")
            await self._deliverer.deliver(
                NewDelivery(
                    purpose=f"person:{question.id}:{place}",
                    platform=platform,
                    kind="notice",
                    address={"channel": channel},
                    content=reply.to_json(),
                    question_id=question.id,
                )
            )
        await self._answer(body, self._words(self._language, "slack.asked_person"))

    async def _again(self, ack: Any, body: Body) -> None:
        """Ask a question once more, in the wording that it was edited to."""
        question = await self._own(body)
        became = "forbidden"
        if question is not None:
            became = await self._app.asking.again(question.id, question.asker)
        await ack()
        if became != "asked":
            self._later(self._answer(body, self._words(self._language, f"slack.again_{became}")))

    async def _choose(self, ack: Any, body: Body) -> None:
        """What the asker chooses after a time-out."""
        question = await self._own(body)
        became = "forbidden"
        if question is not None:
            choice = body["actions"][0]["action_id"].split(":")[1]
            became = await self._app.patience.choose(question.id, question.asker, choice)
        await ack()
        self._later(self._answer(body, self._words(self._language, f"patience.{became}")))

    async def _share(self, ack: Any, body: Body) -> None:
        """Show a private answer to a channel, where everybody there may read every document it cites."""
        await ack()
        self._later(self._shared(body))

    async def _shared(self, body: Body) -> None:
        question = await self._own(body)
        channel = body["actions"][0]["value"].partition(":")[2]
        if question is None or question.answer is None:
            return
        answer = Reply.from_json(question.answer)
        if not await self._may_share(answer, channel):
            await self._answer(body, self._words(self._language, "slack.not_shared"))
            return
        names = await self._house.people.names({question.asker})
        by = self._words(question.language, "slack.shared_by", who=names.get(question.asker, question.asker))
        quoted = "\n".join(f"> {line}" for line in question.text.splitlines())
        reply = Reply(
            answer.kind, f"{by}\n\n{quoted}\n\n{answer.text}", answer.language, answer.citations, answer.meta
        )
        await self._deliverer.deliver(
            NewDelivery(
                purpose=f"share:{question.id}:{channel}",
                platform="slack",
                kind="answer",
                address={"channel": channel, "user": body["user"]["id"]},
                content=reply.to_json(),
                question_id=question.id,
            )
        )
        await self._answer(body, self._words(self._language, "slack.shared"))

    async def _may_share(self, answer: Reply, channel: str) -> bool:
        if await self._house.people.shared(channel):
            return False
        cited = {int(citation["passage_id"]) for citation in answer.citations}
        found = await self._app.store.search.passages(sorted(cited), ("everyone", f"slack:{channel}"))
        return {passage.id for passage in found} == cited

    async def _own(self, body: Body, *, anybody: bool = False) -> QuestionRow | None:
        """The question that a button belongs to, where it is the clicker's (or anybody's)."""
        question_id = body["actions"][0]["value"].partition(":")[0]
        if await self._refused(body):
            return None
        try:
            question = await self._app.store.conversations.question(question_id)
        except NotFound:
            return None
        return question if anybody or question.asker == f"slack:{body['user']['id']}" else None

    # --- answering the clicker

    async def _answer(self, body: Body, text: str) -> None:
        """Say something to the one who clicked, and to nobody else."""
        if body.get("view"):
            view = views.sentence(await self._house.setting(), self._language, text)
            await self._update(body["view"], view)
        elif body.get("response_url"):
            said = {"response_type": "ephemeral", "replace_original": False, "text": neutral(text)}
            await self._house.calls.respond(body["response_url"], said)

    async def _loading(self, ack: Any, body: Body) -> Mapping[str, Any] | None:
        """Open, or push, a view that says "one moment"; None when the trigger came too late, which is said."""
        client = self._house.calls.client
        view = views.loading(await self._house.setting(), self._language)
        opening = client.views_push if body.get("view") else client.views_open
        answer = await self._try(opening, trigger_id=body["trigger_id"], view=view)
        await ack()
        if answer is None:
            self._later(self._answer(body, self._words(self._language, "slack.failed")))
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
