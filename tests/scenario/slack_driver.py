"""Slack's `Driver`: people and places by name, over a `Team`."""

from collections.abc import Mapping, Sequence
from typing import Any

from bot.app import App
from tests.scenario.driver import Form, Seen
from tests.scenario.slack_team import BOT, Team

PEOPLE = {
    "ada": "U0ADA", "lin": "U0LIN", "rena": "U0REV", "rolf": "U0REV2", "adam": "U0ADM", "gus": "U0GUEST",
    "eve": "U0EXT",
}  # fmt: skip
PLACES = {"general": "C0GEN", "hr": "C0HR", "review": "C0REVIEW"}
OURS = "U0BOT"


class SlackDriver:
    """Implements `Driver`."""

    platform = "slack"
    answers_ask_in = "general"
    holds = 2_800
    tells_edits = True

    def __init__(self, team: Team) -> None:
        self.team = team

    @property
    def app(self) -> App:
        return self.team.app

    def principal(self, who: str) -> str:
        return f"slack:{PEOPLE[who]}"

    def place(self, where: str) -> str:
        return f"slack:{PLACES[where]}"

    def _place(self, who: str, where: str) -> str:
        return f"D{PEOPLE[who][1:]}" if where == "direct" else PLACES[where]

    async def _open(self, who: str, where: str) -> None:
        """Direct messages exist once somebody has opened them."""
        if where == "direct":
            await self.team.slack.do("open_messages", user=PEOPLE[who])

    async def say(
        self,
        who: str,
        where: str,
        text: str,
        *,
        mention: bool = True,
        thread: str = "",
        files: Sequence[str] = (),
        quoting: str = "",
    ) -> str:
        await self._open(who, where)
        more: dict[str, Any] = {"thread": thread or None, "files": list(files)}
        if quoting:
            more["attachments"] = [{"is_share": True, "text": quoting, "author_id": "U0LIN"}]
        addressed = f"{BOT} {text}" if mention and where != "direct" else text
        return await self.team.slack.say(PEOPLE[who], self._place(who, where), addressed, **more)

    async def edit(self, who: str, where: str, message: str, text: str) -> None:
        written = text if where == "direct" else f"{BOT} {text}"
        place = self._place(who, where)
        await self.team.slack.do("edit", user=PEOPLE[who], channel=place, ts=message, text=written)

    async def delete(self, who: str, where: str, message: str) -> None:
        await self.team.slack.do("delete", user=PEOPLE[who], channel=self._place(who, where), ts=message)

    async def react(self, who: str, where: str, message: str) -> None:
        place = self._place(who, where)
        await self.team.slack.do("react", user=PEOPLE[who], channel=place, ts=message, emoji="+1")

    async def command(self, who: str, where: str, text: str) -> None:
        await self._open(who, where)
        name, _, rest = text.partition(" ")
        await self.team.slack.command(PEOPLE[who], self._place(who, where), name, rest)

    async def upload(self, who: str, name: str, data: bytes) -> str:
        return await self.team.slack.upload(PEOPLE[who], name, data)

    async def see(self, who: str, where: str) -> list[Seen]:
        return [
            Seen(
                id=message["ts"],
                thread="" if message["thread"] in (None, message["ts"]) else message["thread"],
                ours=message["by"] == OURS,
                text=message["text"],
                private=message["ephemeral"],
                buttons=_buttons(message["actions"]),
            )
            for message in await self.team.slack.see(PEOPLE[who], self._place(who, where))
        ]

    async def click(self, who: str, where: str, message: str, button: str) -> None:
        action, pick = _action(button)
        place = self._place(who, where)
        clicked = await self.team.slack.click(PEOPLE[who], place, message, action, pick=pick)
        assert clicked["acked"]

    async def click_late(self, who: str, where: str, message: str, button: str) -> None:
        action, pick = _action(button)
        place = self._place(who, where)
        clicked = await self.team.slack.click(PEOPLE[who], place, message, action, pick=pick, late=True)
        assert clicked["acked"]

    async def form(self, who: str) -> Form | None:
        modal = await self.team.slack.modal(PEOPLE[who])
        if modal is None:
            return None
        elements = [e.get("action_id", "") for b in modal["view"]["blocks"] for e in b.get("elements", ())]
        return Form(modal["text"], tuple(modal["inputs"]), _buttons(elements))

    async def click_form(self, who: str, button: str) -> None:
        action, pick = _action(button)
        await self.team.slack.do("click_modal", user=PEOPLE[who], button=action, pick=pick)

    async def submit(self, who: str, **values: Any) -> Mapping[str, str]:
        sent = await self.team.slack.submit(PEOPLE[who], **values)
        assert sent["acked"]
        errors: Mapping[str, str] = (sent["response"] or {}).get("errors", {})
        return errors

    async def settle(self) -> None:
        await self.team.slack.do("settle")

    async def check(self) -> None:
        await self.team.check_invariants()


def _action(button: str) -> tuple[str, str]:
    """(Slack's action id, which side of the feedback buttons)."""
    if button in ("helpful", "unhelpful"):
        return "feedback", "positive" if button == "helpful" else "negative"
    reviewing = ("approve", "edit", "reject", "claim", "release", "pass_on", "open")
    return (f"review:{button}" if button in reviewing else button), ""


def _buttons(actions: Sequence[str]) -> frozenset[str]:
    shown = {action.removeprefix("review:") for action in actions if action}
    return frozenset(shown - {"feedback"} | ({"helpful", "unhelpful"} if "feedback" in shown else set()))
