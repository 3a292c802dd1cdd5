"""What a question's way leaves in the log: its id on every line, and nobody's words."""

from pathlib import Path
from typing import Any

import structlog
from structlog.testing import capture_logs

from bot.app import Parts
from rag_graph.graph import NODES
from tests.embedder import HashEmbedder
from tests.houses import House
from tests.scenario.desk import desk

LEAVE = "How many days of annual leave do employees receive each year?"
PAYMENT = "甲方应在验收合格后多少日内付款？"
WORDS = ("annual leave", "15 days", "验收", "付款", "lin's own words")


def talkative(house: House) -> Parts:
    """A platform that can fail, and a node that says something in the middle of the graph."""
    log = structlog.get_logger("tests.node")

    async def draft(state: Any, runtime: Any) -> Any:
        log.info("node.speaks")
        node: Any = NODES["draft"]
        return await node(state, runtime=runtime)

    return Parts(
        embedder=HashEmbedder(),
        nodes={**NODES, "draft": draft},
        platforms=lambda store: {"cli": house, "web": house},
    )


async def test_every_line_of_a_questions_way_has_its_id_and_no_words(
    database_url: str, tmp_path: Path
) -> None:
    """From the door over the graph to a delivery that fails, over a review and its resume: each line names the
    question, from the run on also the run; none holds a word of a question, an answer or an edit."""
    house = House("cli", failing=OSError())
    with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        async with desk(database_url, tmp_path, talkative(house)) as team:
            asked = await team.ask(LEAVE)
            await team.wait(lambda: _failed(team, asked), "a delivery that fails")
            house.failing = None
            review = await team.held(PAYMENT)
            await team.decide(review, "edit", text="lin's own words")
            held = review.question_id
            await team.wait(lambda: _ended(lines, held), "the review to end")
    told = [
        line
        for line in lines
        if str(line["event"]).startswith(("question.", "node.", "review.", "delivery."))
    ]
    assert {line["question"] for line in told if line["event"] == "node.speaks"} == {asked, held}
    for question_id in (asked, held):
        mine = [line for line in told if line.get("question") == question_id]
        assert {"question.accepted", "question.settled"} <= {line["event"] for line in mine}
        settled = next(at for at, line in enumerate(mine) if line["event"] == "question.settled")
        assert mine[settled]["run"] > 0
    assert [line for line in told if not line.get("question")] == []
    resumed = [line for line in told if line["event"] == "review.ended"]
    assert [(line["question"], line["review"], line["state"]) for line in resumed] == [
        (held, review.id, "edited")
    ]
    assert resumed[0]["run"] > 0
    text = repr(lines)
    assert [word for word in WORDS if word in text.replace(str(tmp_path), "")] == []


async def _failed(team: Any, question_id: str) -> bool:
    rows = await team.app.store.deliveries.for_question(question_id)
    return any(row.state == "failed" for row in rows)


async def _ended(lines: list[Any], question_id: str) -> bool:
    return any(line["event"] == "review.ended" and line.get("question") == question_id for line in lines)
