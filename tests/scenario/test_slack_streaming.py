"""An answer by a language model that takes its time, as the people in the thread see it grow: the real graph, the real
SDKs, a stand-in model and a stand-in Slack."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from bot.app import Parts
from bot.messages import Progress
from bot.slack import progress, stream
from bot.slack.progress import Streams
from rag_graph.models import ModelSettings, ModelWriter
from store.deliveries import Deliveries, DeliveryRow
from store.errors import DatabaseUnavailable
from tests.embedder import HashEmbedder
from tests.emulators.openai import MODEL, OpenAIServer, Say, Scripted
from tests.emulators.openai_script import parrot
from tests.emulators.slack.client import StandIn
from tests.scenario.slack_team import BOT, CONTRACT, LEAVE, Team, slack_team

SENTENCES = (
    "Employees receive 15 days of annual leave each year [1].",
    "Unused annual leave is valid until 31 March of the following year [2].",
)
PAUSE = 0.12


def slowly(body: Mapping[str, Any]) -> Scripted:
    """The parrot's answers, drafts of several sentences a few letters at a time."""
    answer = parrot(body)
    if isinstance(answer, Say) and answer.text.endswith("]"):
        contract = "45" in answer.text
        return Say(answer.text if contract else " ".join(SENTENCES), piece=4 if contract else 10, pause=PAUSE)
    return answer


@asynccontextmanager
async def writing(slack: StandIn, database_url: str, folder: Path, **more: Any) -> AsyncIterator[Team]:
    kept = more.pop("store", lambda real: real)
    with OpenAIServer(default=slowly) as model:
        writer = ModelWriter(
            ModelSettings(base_url=model.base_url, api_key=SecretStr(model.key), model=MODEL)
        )
        parts = Parts(embedder=HashEmbedder(), writer=writer, store=kept)
        async with slack_team(slack, database_url, folder, parts=parts, **more) as team:
            yield team
            await team.quiet()
            await team.check_invariants()


async def growing(team: Team, text: str) -> dict[str, Any]:
    """The message that is being streamed, once it shows `text`."""

    async def look() -> dict[str, Any] | None:
        messages = (await team.slack.world())["channels"]["C0GEN"]["messages"]
        return next((m for m in messages if m.get("streaming") and text in m["text"]), None)

    found: dict[str, Any] = await team.slack.until(look, 20)
    return found


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps have a message of their own after 0.2 s in place of 1.5, and news is shown ten times as often."""
    monkeypatch.setattr(stream, "BEGIN_AFTER", 0.2)
    monkeypatch.setattr(stream, "GAP", 0.1)


@pytest.mark.parametrize("transport", ["socket", "http"])
async def test_an_answer_grows_in_its_message(
    spare: StandIn, database_url: str, tmp_path: Path, transport: str
) -> None:
    """Status, then steps as task cards, then sentence by sentence; the same message becomes the answer with its
    sources, and its button to stop is gone."""
    async with writing(spare, database_url, tmp_path, transport=transport, rules=()) as team:
        ts = await team.slack.say("U0ADA", "C0GEN", f"{BOT} {LEAVE}")
        begun = await growing(team, "15 days")
        assert begun["streaming"]["tasks"]["retrieve"]["status"] == "complete"
        assert begun["streaming"]["tasks"]["draft"]["status"] == "in_progress"
        assert "[1]" in begun["text"]
        await team.ended(LEAVE)
        answer = await team.slack.until_seen("U0ADA", "C0GEN", "[2] leave", thread=ts)
        assert answer["ts"] == begun["ts"]
        assert {"passage:1", "feedback"} <= set(answer["actions"])
        assert "stop" not in answer["actions"]
        assert "31 March" in answer["text"]
        assert len(await team.answers("C0GEN", ts)) == 1
        statuses = [status["status"] for status in (await team.slack.world())["statuses"]]
        assert statuses
        assert all(statuses)


async def test_a_stream_that_grows_old_goes_on_below(
    spare: StandIn, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before Slack would close it, the stream goes on in another message; at the end the first one holds the whole
    answer and the other is gone."""
    monkeypatch.setattr(stream, "ROLL_OVER", 0.4)
    async with writing(spare, database_url, tmp_path, rules=()) as team:
        ts = await team.slack.say("U0ADA", "C0GEN", f"{BOT} {LEAVE}")
        first = await growing(team, "15 days")
        second = await growing(team, "31 March")
        await team.ended(LEAVE)
        await team.slack.until_seen("U0ADA", "C0GEN", "[2] leave", thread=ts)
        await team.quiet()  # the whole answer is there before what it did not need is gone
        (answer,) = await team.answers("C0GEN", ts)
        assert answer["ts"] <= first["ts"] < second["ts"]  # before the first sentence there were steps
        assert await team.slack.calls("chat.delete")
        assert "15 days" in answer["text"]
        assert "31 March" in answer["text"]


class Forgetful:
    """Deliveries whose database goes away whenever a stream has a message."""

    def __init__(self, deliveries: Deliveries) -> None:
        self._deliveries = deliveries

    def __getattr__(self, name: str) -> Any:
        return getattr(self._deliveries, name)

    async def sent(self, delivery_id: int, message_id: str) -> DeliveryRow:
        if "|stream:" in message_id:
            raise DatabaseUnavailable
        return await self._deliveries.sent(delivery_id, message_id)


async def test_another_process_finds_a_stream_whose_message_was_never_stored(
    spare: StandIn, database_url: str, tmp_path: Path
) -> None:
    """The message has begun and the database is away: whoever answers the question fills that message, and none with
    steps and a button stays behind. Found by restarting Postgres under load."""
    async with writing(
        spare,
        database_url,
        tmp_path,
        rules=(),
        store=lambda real: replace(real, deliveries=Forgetful(real.deliveries)),
    ) as team:
        await team.slack.say("U0ADA", "C0GEN", f"{BOT} {LEAVE}")
        begun = await growing(team, "")
        question = await team.question(LEAVE)
        other = Streams(team.house.calls, team.app.words, team.app.store.deliveries)
        assert await other.finished(f"answer:{question.id}") == [begun["ts"]]
        await team.ended(LEAVE)
        await team.quiet()
        assert await other.finished(f"answer:{question.id}") == []  # it is the answer now


@pytest.mark.parametrize("stored", [True, False])
async def test_what_a_killed_process_had_begun_is_filled_or_taken_away(
    spare: StandIn, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: bool
) -> None:
    """Another process streams the answer anew, in a message of its own: both are found, so that one becomes the answer
    and the other goes, whether or not the dead process came to store its message. Found by killing under load."""
    monkeypatch.setattr(stream, "BEGIN_AFTER", 60.0)
    monkeypatch.setattr(progress, "NEW", 0.5)
    async with slack_team(spare, database_url, tmp_path, rules=()) as team:
        ts = await team.asked(LEAVE)
        question, answer = await team.question(LEAVE), await team.answers("C0GEN", ts)
        monkeypatch.setattr(stream, "BEGIN_AFTER", 0.0)
        kept: Any = team.app.store.deliveries
        first: Any = kept if stored else Forgetful(kept)
        for deliveries in (first, kept):
            process = Streams(team.house.calls, team.app.words, deliveries)
            step = Progress(question.id, question.conversation_id, "retrieve")
            await process.tell(question.address, step)
            await asyncio.sleep(1.0)
        begun = set(await process.finished(f"answer:{question.id}"))
        shown = {message["ts"] for message in await team.answers("C0GEN", ts)} - {answer[0]["ts"]}
        assert begun == shown
        assert len(begun) == 2
        await process.remove("C0GEN", sorted(begun))


@pytest.mark.parametrize("transport", ["socket", "http"])
async def test_a_running_answer_can_be_stopped(
    spare: StandIn, database_url: str, tmp_path: Path, transport: str
) -> None:
    """The button under the growing answer cuts it off for its asker alone: the message says so, and no answer comes."""
    async with writing(spare, database_url, tmp_path, transport=transport, rules=()) as team:
        ts = await team.slack.say("U0ADA", "C0GEN", f"{BOT} {LEAVE}")
        begun = await growing(team, "")
        await team.slack.click("U0LIN", "C0GEN", begun["ts"], "stop")
        await team.slack.until_seen("U0LIN", "C0GEN", "nothing to stop")
        await team.slack.click("U0ADA", "C0GEN", begun["ts"], "stop")
        assert (await team.ended(LEAVE)).state == "withdrawn"
        shown = await team.slack.until_seen("U0ADA", "C0GEN", "Withdrawn", thread=ts)
        assert shown["ts"] == begun["ts"]
        await asyncio.sleep(len(" ".join(SENTENCES)) / 10 * PAUSE)
        (only,) = await team.answers("C0GEN", ts)
        assert "15 days" not in only["text"]


async def test_a_draft_that_a_rule_may_hold_is_not_streamed(
    spare: StandIn, database_url: str, tmp_path: Path
) -> None:
    """Of a draft that waits for a person only the steps are shown; the same message then says who has to decide."""
    async with writing(spare, database_url, tmp_path) as team:
        ts = await team.slack.say("U0ADA", "C0GEN", f"{BOT} {CONTRACT}")
        begun = await growing(team, "")
        await team.card()
        notice = await team.slack.until_seen("U0ADA", "C0GEN", "审核", thread=ts)
        assert notice["ts"] == begun["ts"]
        appended = [
            str(call["arguments"].get("chunks"))
            for call in await team.slack.calls("chat.startStream", "chat.appendStream")
        ]
        assert appended
        assert not any("markdown_text" in chunks for chunks in appended)
