"""Fixtures of the Slack scenarios: a bot that a whole module shares, over each transport, emptied between tests.

Starting one costs half a second of processor (database, pools, graphs, connection); emptying it a tenth of that. A
test that needs a bot of its own (a restart, other settings) starts it on `spare`, so that the shared one is not
disturbed. Modules that use `stage` run in one event loop: `pytestmark = pytest.mark.asyncio(loop_scope="module")`.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
import pytest_asyncio

from bot import limits
from bot.slack import calls, send, stream
from tests.emulators.feishu.client import StandIn as FeishuStandIn
from tests.emulators.slack.client import StandIn
from tests.scenario.driver import Scene
from tests.scenario.slack_team import Team, emptied, slack_team


@pytest.fixture(scope="session")
def shared_slack() -> Iterator[StandIn]:
    """The stand-in that `stage` is connected to."""
    with StandIn() as running:
        yield running


@pytest.fixture(scope="session")
def spare() -> Iterator[StandIn]:
    """A stand-in for tests that start bots of their own."""
    with StandIn() as running:
        yield running


@pytest.fixture(scope="module")
def quick() -> Iterator[None]:
    """Pauses that spare the platforms, shortened: the stand-ins count no rates unless they are asked to."""
    with pytest.MonkeyPatch.context() as patch:
        for platform in ("slack", "feishu"):
            patch.setitem(limits.PACES, platform, {})
        patch.setattr(send, "UPDATE_GAP", 0.05)
        patch.setattr(stream, "GAP", 0.05)
        patch.setattr(calls, "POSTS", 1_000)
        yield


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["socket", "http"])
async def stage(
    request: pytest.FixtureRequest,
    shared_slack: StandIn,
    cloning: Callable[[], AbstractContextManager[str]],
    tmp_path_factory: pytest.TempPathFactory,
    quick: None,
) -> AsyncIterator[Team]:
    """A team whose bot answers and ingests, over one transport."""
    folder = tmp_path_factory.mktemp("slack")
    queues = ("answers", "ingest")
    with cloning() as url:
        async with slack_team(shared_slack, url, folder, transport=request.param, queues=queues) as opened:
            yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def team(stage: Team) -> AsyncIterator[Team]:
    """The team with nothing asked yet; what must always hold is checked when the test ends."""
    await emptied(stage)
    yield stage
    await stage.quiet()
    await stage.check_invariants()


# --- Feishu: the same. Its SDK is loaded (5 s) by the tests that ask for it, not by this file.


@pytest.fixture(scope="session")
def shared_feishu() -> Iterator[FeishuStandIn]:
    """The stand-in that `feishu_stage` is connected to."""
    with FeishuStandIn() as running:
        yield running


@pytest.fixture(scope="session")
def spare_feishu() -> Iterator[FeishuStandIn]:
    """A stand-in for tests that start bots of their own."""
    with FeishuStandIn() as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["connection", "webhook"])
async def feishu_stage(
    request: pytest.FixtureRequest,
    shared_feishu: FeishuStandIn,
    cloning: Callable[[], AbstractContextManager[str]],
    tmp_path_factory: pytest.TempPathFactory,
    quick: None,
) -> AsyncIterator[Any]:
    """A `tests.scenario.feishu_team.Team` whose bot answers and ingests, over one transport."""
    from tests.scenario.feishu_team import feishu_team

    folder = tmp_path_factory.mktemp("feishu")
    queues = ("answers", "ingest")
    with cloning() as url:
        async with feishu_team(shared_feishu, url, folder, transport=request.param, queues=queues) as opened:
            yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def feishu(feishu_stage: Any) -> AsyncIterator[Scene]:
    """A scene with nothing asked yet; what must always hold is checked when the test ends."""
    from tests.scenario.feishu_team import FeishuDriver, emptied

    await emptied(feishu_stage)
    opened = Scene(FeishuDriver(feishu_stage))
    yield opened
    await opened.quiet()
    await feishu_stage.check_invariants()
