"""A file handed over in Slack: what it is and where it lies is asked of Slack, and what comes back is looked at.

Recognised before anything is indexed: a sign-in page in place of the file (HTTP 200 without files:read:
slackapi/bolt-js#2585), a file kept on another server (whose address must never get our token), a Slack Connect stub.
The rest of its way is every platform's (bot/uploads.py).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from bot.messages import NotTaken
from bot.slack.send import SlackHouse
from bot.uploads import Uploads

if TYPE_CHECKING:
    from bot.app import App

SLACK_HOSTS = ("files.slack.com",)  # docs.slack.dev/reference/objects/file-object: url_private_download
HTML = (b"<!doctype html", b"<html")
PAGES = (".html", ".htm")


class SlackUploads(Uploads):
    """`file` is {"key": its id, "name": its name, "" until Slack has told it}; of a page see `defer_page`."""

    def __init__(self, app: "App", house: SlackHouse) -> None:
        super().__init__(app, "slack", self._download)
        self._house = house
        self._hosts = {*SLACK_HOSTS, urlsplit(house.settings.api_url).netloc}

    async def take(self, file: dict[str, Any], person: str, collection: str, audience: list[str]) -> None:
        """A file in a message may be a stub without a name: Slack is asked for the whole of it."""
        if file.get("page"):
            await super().take(file, person, collection, audience)
            return
        try:
            info = (await self._house.calls(self._house.calls.client.files_info, file=file["key"]))["file"]
        except NotTaken as error:
            await self._tell(file, person, "download_failed", name=file["key"], detail=str(error))
            return
        whole = {
            **file,
            "name": str(info.get("name") or file["key"]),
            "url": str(info.get("url_private_download") or info.get("url_private") or ""),
            "external": bool(info.get("is_external")) or info.get("mode") == "external",
        }
        await super().take(whole, person, collection, audience)

    async def _download(self, file: Mapping[str, Any]) -> tuple[str, bytes]:
        if file["external"] or urlsplit(file["url"]).netloc not in self._hosts:
            return "external", b""
        limit = self._app.settings.ingest.max_megabytes * 1_000_000
        try:
            kind, data = await self._house.calls.download(file["url"], limit)
        except NotTaken as error:
            return "download_failed", str(error).encode()
        page = kind == "text/html" or data[:64].lstrip().lower().startswith(HTML)
        if page and not (kind != "text/html" and file["name"].lower().endswith(PAGES)):
            return "login_page", b""
        return "", data
