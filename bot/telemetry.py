"""What a process tells of its work: numbers, and one line of JSON an event, ids but never people's text at INFO."""

import logging
import sys
from collections.abc import Mapping
from typing import Any

import structlog

from bot.metrics import Metrics
from rag_graph.advance import Outcome

log = structlog.get_logger(__name__)


class Telemetry:
    """What is counted and said about questions. The queue names a job's own ids before it runs (store/queue.py); what
    is named here is on every line until that job ends."""

    def __init__(self, metrics: Metrics | None = None) -> None:
        self.metrics = metrics or Metrics()

    def name(self, **ids: object) -> None:
        """Put these ids on every line of this job, from here on."""
        structlog.contextvars.bind_contextvars(**ids)

    def accepted(self, question_id: str, platform: str, refused: str) -> None:
        """A message was stored; `refused` is why it is not answered, "" where it is."""
        self.metrics.accepted(platform, refused)
        log.info("question.accepted", question=question_id, platform=platform, refused=refused)

    def settled(
        self, question: tuple[str, str], run: int, outcome: Outcome, spent: Mapping[str, float]
    ) -> None:
        """The run with the id `run` was written down for (question id, platform). `spent` is in milliseconds."""
        question_id, platform = question
        self.name(question=question_id, run=run)
        self.metrics.settled(platform, outcome, spent)
        log.info(
            "question.settled",
            outcome=outcome.status,
            rule=outcome.rule,
            confidence=round(outcome.confidence, 3),
            retrieved=len(outcome.retrieved),
            cited=len(outcome.draft.citations) if outcome.draft else 0,
            degraded=list(outcome.degraded),
            milliseconds={step: round(taken) for step, taken in spent.items()},
        )

    def failed(self, question_id: str, platform: str) -> None:
        """Nothing could answer it; its asker is told."""
        self.metrics.failed(platform)
        log.error("question.failed", question=question_id)

    def reviewed(self, state: str) -> None:
        """A review ended, and what follows is done."""
        self.metrics.reviewed(state)
        log.info("review.ended", state=state)

    def delivered(self, platform: str, result: str) -> None:
        """A message was sent, or why not: failed (it is tried again), refused (never), unknown."""
        self.metrics.delivered(platform, result)


class Untold(Telemetry):
    """Counts and says nothing: what telemetry costs is measured against this (bench/telemetry.py)."""

    def name(self, **ids: object) -> None:
        pass

    def accepted(self, question_id: str, platform: str, refused: str) -> None:
        pass

    def settled(
        self, question: tuple[str, str], run: int, outcome: Outcome, spent: Mapping[str, float]
    ) -> None:
        pass

    def failed(self, question_id: str, platform: str) -> None:
        pass

    def reviewed(self, state: str) -> None:
        pass

    def delivered(self, platform: str, result: str) -> None:
        pass


def configure_logging(level: str = "INFO", *, human: bool | None = None) -> None:
    """Set up structlog and route the libraries' loggers through it. `human`: readable lines, not JSON
    (default: when standard error is a terminal)."""
    human = sys.stderr.isatty() if human is None else human
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    renderer: Any = (
        structlog.dev.ConsoleRenderer()
        if human
        else structlog.processors.JSONRenderer(ensure_ascii=False, default=str)
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level)),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    # These name job arguments, SQL or whole requests at INFO.
    for noisy in (
        "uvicorn",  # tells of its own start, which `up` does too
        "procrastinate",
        "httpx",
        "httpx2",
        "alembic",
        "openai",
        "haystack",
        "watchfiles",
        "pdfminer",
    ):
        logging.getLogger(noisy).setLevel(logging.WARNING)
