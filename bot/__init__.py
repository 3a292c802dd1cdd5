"""Who asks, where, and how the process is put together."""

from bot import settings as settings  # first: it sets what libraries read when they are imported
