"""A strict stand-in for Slack: a workspace, its Web API, both transports, and people who click what they see.

It runs as a process of its own (`python -m tests.emulators.slack --manifest manifests/slack.yaml`); nothing of
slack-bolt or slack-sdk is imported here, so that the bot and the stand-in cannot share a misreading. The rules come
from docs.slack.dev; each module names the pages beside them. `client.StandIn` starts it and drives it from a test.
"""
