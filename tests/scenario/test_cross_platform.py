"""One team on two platforms: what is asked on one is reviewed on the other, both ways. The review channel is a setting,
not a platform."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bot.app import App, Parts, open_app
from bot.settings import Settings
from tests.embedder import HashEmbedder
from tests.emulators.feishu.client import StandIn as FeishuStandIn
from tests.emulators.feishu.permissions import Manifest as FeishuManifest
from tests.emulators.slack.client import StandIn as SlackStandIn
from tests.emulators.slack.scopes import Manifest as SlackManifest
from tests.knowledge import publish
from tests.scenario import feishu_team, slack_team
from tests.scenario.desk import HANDBOOK
from tests.scenario.driver import CONTRACT, Scene
from tests.scenario.slack_driver import SlackDriver

RENA = ("slack:U0REV", "feishu:ou_rena")  # one person, linked by an administrator


@dataclass
class Both:
    app: App
    slack: Scene
    feishu: Scene

    async def check(self) -> None:
        for there in (self.slack, self.feishu):
            await there.quiet()
            await there.driver.check()


@asynccontextmanager
async def both(
    slack: SlackStandIn, feishu: FeishuStandIn, url: str, folder: Path, review_in: str
) -> AsyncIterator[Both]:
    """One application with both houses; `review_in` is the principal of its only review channel."""
    await slack.do(
        "reset", manifest=SlackManifest.read(feishu_team.ROOT / "manifests" / "slack.yaml").content
    )
    given = await feishu.reset(FeishuManifest.read(feishu_team.ROOT / "manifests" / "feishu.yaml").content)
    reviewers = ("slack:U0REV", "slack:U0REV2", "feishu:ou_rena", "feishu:ou_rolf")
    # The same question is asked again and again, and is to be held each time.
    wanted = {"channels": (review_in,), "reviewers": reviewers, "verified": False}
    here = feishu_team.settings_for(given, feishu.base, folder, webhook=False, review=wanted)
    there = slack_team.settings_for(slack, folder, socket=True)
    settings: Settings = here.model_copy(update={"slack": there.slack})
    embedder = HashEmbedder()
    async with open_app(settings, url, Parts(embedder=embedder)) as app:
        for (collection, source), texts in HANDBOOK.items():
            await publish(app.store, embedder, collection, source, texts)
        async with slack_team.connected(slack, app) as one, feishu_team.connected(feishu, app) as other:
            working = asyncio.create_task(app.store.queue.run_worker(["answers"]))
            try:
                yield Both(app, Scene(SlackDriver(one)), Scene(feishu_team.FeishuDriver(other)))
            finally:
                working.cancel()
                await asyncio.gather(working, return_exceptions=True)


async def test_asked_in_slack_reviewed_in_feishu(
    spare: SlackStandIn, spare_feishu: FeishuStandIn, database_url: str, tmp_path: Path
) -> None:
    """The card in Feishu names who asked in Slack; a linked reviewer's click there sends the answer, signed. Nobody
    approves their own question, under whichever of their accounts; nor whoever cannot be told from its asker."""
    async with both(spare, spare_feishu, database_url, tmp_path, "feishu:oc_review") as team:
        await team.app.store.people.link(*RENA, by="cli:admin")
        message = await team.slack.driver.say("ada", "general", CONTRACT)
        card = await team.feishu.card()
        assert "ada" in card.text
        await team.feishu.driver.click("rolf", "review", card.id, "approve")  # linked to no Slack account
        assert (await team.feishu.review()).state == "pending"
        await team.feishu.driver.click("rena", "review", card.id, "approve")
        answer = await team.slack.until_seen("ada", "general", "45 日内", thread=message)
        assert "rena 已签发" in answer.text
        await team.feishu.until_seen("rolf", "review", "approved by rena")

        await team.slack.driver.say("rena", "general", CONTRACT)
        own = await team.feishu.until(lambda: _second(team.feishu))
        await team.feishu.driver.click("rena", "review", own, "approve")
        await team.feishu.until_seen("rena", "review", "yourself")
        assert (await team.feishu.review()).state == "pending"
        await team.check()


async def _second(scene: Scene) -> str | None:
    cards = [
        m.id
        for m in await scene.driver.see("rena", "review")
        if CONTRACT in m.text and "approve" in m.buttons
    ]
    return cards[0] if cards else None


async def test_asked_in_feishu_reviewed_in_slack(
    spare: SlackStandIn, spare_feishu: FeishuStandIn, database_url: str, tmp_path: Path
) -> None:
    """The other way round, with the same person's two accounts."""
    async with both(spare, spare_feishu, database_url, tmp_path, "slack:C0REVIEW") as team:
        await team.app.store.people.link(*RENA, by="cli:admin")
        message = await team.feishu.driver.say("ada", "general", CONTRACT)
        card = await team.slack.card()
        await team.slack.driver.click("rena", "review", card.id, "approve")
        answer = await team.feishu.until_seen("ada", "general", "45 日内", thread=message)
        assert "已签发" in answer.text

        await team.feishu.driver.say("rena", "general", CONTRACT)
        own = await team.slack.until(lambda: _second(team.slack))
        await team.slack.driver.click("rena", "review", own, "approve")
        await team.slack.until_seen("rena", "review", "yourself")
        assert (await team.slack.review()).state == "pending"
        await team.check()
