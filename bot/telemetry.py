"""Logs: one line of JSON an event, ids but never people's text at INFO."""

import logging
import sys
from typing import Any

import structlog


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
