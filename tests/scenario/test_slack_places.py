"""Where Signoff speaks in Slack and where it keeps out: channel modes, the agent's tab, conversations of people."""

from pathlib import Path

import pytest

from tests.emulators.slack.client import StandIn
from tests.scenario.slack_team import BOT, LEAVE, Team, read_manifest, slack_team


async def unanswered(team: Team, user: str, channel: str, text: str, thread: str) -> None:
    """Nothing becomes of this message."""
    before = len(await team.answers(channel, thread))
    await team.slack.say(user, channel, text, thread=thread)
    await team.quiet()
    assert len(await team.answers(channel, thread)) == before


async def answered(team: Team, user: str, channel: str, text: str, thread: str) -> None:
    """This message gets an answer of its own."""
    before = len(await team.answers(channel, thread))
    await team.slack.say(user, channel, text, thread=thread)
    await team.ended(text.removeprefix(f"{BOT} "))
    await team.quiet()
    assert len(await team.answers(channel, thread)) == before + 1


async def test_each_channel_follows_its_threads_its_own_way(
    spare: StandIn, database_url: str, tmp_path: Path
) -> None:
    """Bound by id: mentions alone, the asker's follow-ups (the default), or everybody's."""
    modes = {"C0HR": "thread", "C0ONLY": "mentions"}
    async with slack_team(spare, database_url, tmp_path, follow_in=modes) as team:
        await team.slack.do("channel", id="C0ONLY", add=["U0BOT", "U0ADA", "U0LIN"])
        ts = await team.asked("What is ERR_0042?", channel="C0ONLY")
        await unanswered(team, "U0ADA", "C0ONLY", "How many days of leave are there?", ts)
        await answered(team, "U0ADA", "C0ONLY", f"{BOT} How long is leave valid?", ts)
        ts = await team.asked("What means ERR_0042?", channel="C0HR")
        await answered(team, "U0LIN", "C0HR", "How many days of annual leave does everybody get?", ts)
        await answered(team, "U0ADA", "C0HR", "Until when is unused annual leave valid?", ts)
        ts = await team.asked("Which error is ERR_0042?", channel="C0GEN")
        await answered(team, "U0ADA", "C0GEN", "Until when is annual leave valid?", ts)
        await unanswered(team, "U0LIN", "C0GEN", "Is leave valid for ever?", ts)
        await team.check_invariants()


async def test_a_thread_is_left_to_people_who_talk_to_each_other(
    spare: StandIn, database_url: str, tmp_path: Path
) -> None:
    """Once somebody speaks to somebody else the bot keeps out, also after a restart, until it is mentioned again."""
    async with slack_team(spare, database_url, tmp_path, follow="thread") as team:
        ts = await team.asked()
        await unanswered(team, "U0LIN", "C0GEN", "I thought it was more, <@U0ADA>", ts)
        await unanswered(team, "U0ADA", "C0GEN", "How many days of leave did you think?", ts)
    async with slack_team(spare, database_url, tmp_path, follow="thread", fresh=False) as team:
        await unanswered(team, "U0LIN", "C0GEN", "How long is it valid?", ts)
        await answered(team, "U0LIN", "C0GEN", f"{BOT} Until when is annual leave valid?", ts)
        await answered(team, "U0ADA", "C0GEN", "What does ERR_0042 mean?", ts)
        await team.check_invariants()


@pytest.mark.parametrize("surface", ["agent_view", "assistant_view"])
async def test_the_agents_tab_is_at_home_on_both_surfaces(
    spare: StandIn, database_url: str, tmp_path: Path, surface: str
) -> None:
    """Suggested prompts, a status and a title: in an agent's tab, and in the threads of apps that still have the
    assistant's."""
    manifest = read_manifest("slack.yaml")
    if surface == "assistant_view":
        manifest["features"]["assistant_view"] = {"assistant_description": "Answers from documents."}
        del manifest["features"]["agent_view"]
    async with slack_team(spare, database_url, tmp_path, manifest=manifest) as team:
        opened = await team.slack.do("open_messages", user="U0ADA")

        async def prompted() -> bool:
            return bool((await team.slack.world())["prompts"])

        await team.slack.until(prompted)
        thread = opened.get("thread") or await team.slack.say("U0ADA", "D0ADA", "Hello")
        await team.slack.say("U0ADA", "D0ADA", LEAVE, thread=thread)
        await team.slack.until_seen("U0ADA", "D0ADA", "15 days", thread=thread)

        async def titled() -> bool:
            return bool((await team.slack.world())["titles"])

        await team.slack.until(titled)
        world = await team.slack.world()
        assert world["titles"][0]["title"] == LEAVE
        assert (world["prompts"][0].get("thread_ts") is None) == (surface == "agent_view")
        await team.quiet()
        await team.check_invariants()
