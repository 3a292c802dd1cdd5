"""Who asks, where, and how the process is put together."""
