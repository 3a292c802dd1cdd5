"""Files into passages, in Haystack pipelines. Only the worker process imports this package."""

import os

# Haystack decides on telemetry when it is imported, by the environment alone, and takes over structlog unless told not
# to; bot.settings is not imported here (the layers point the other way). Whoever runs the process may still overrule.
os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")  # noqa: TID251
os.environ.setdefault("HAYSTACK_LOGGING_IGNORE_STRUCTLOG", "true")  # noqa: TID251
