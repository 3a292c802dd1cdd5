"""Slack: the only place that knows slack-bolt and slack-sdk."""
