"""A file handed over in Slack: fetched, looked at, stored, and its fate told by direct message.

What can go wrong is recognised before anything is indexed: a sign-in page in place of the file (HTTP 200 without
files:read: slackapi/bolt-js#2585), a file kept on another server (whose address must never get our token), a Slack
Connect stub, a type that is not what it says, too much of it, the same bytes again.
"""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import structlog

from bot.deliver import Deliverer
from bot.messages import NotTaken, Reply
from bot.slack.send import SlackHouse
from store.deliveries import DeliveryRow, NewDelivery
from store.documents import VersionRow
from store.errors import IngestError, NotFound
from store.queue import Retry

if TYPE_CHECKING:
    from bot.app import App

log = structlog.get_logger(__name__)

READABLE = frozenset({".md", ".markdown", ".txt", ".text", ".pdf"})
SLACK_HOSTS = ("files.slack.com",)  # docs.slack.dev/reference/objects/file-object: url_private_download
HTML = (b"<!doctype html", b"<html")
LOOK_EVERY = 1.0  # seconds between two looks at a document that is being read
PREVIEW_CHUNKS, PREVIEW_LETTERS = 2, 600
FINISHED = frozenset({"live", "retired", "failed"})
TRYING = Retry(attempts=4, initial_seconds=1.0, longest_seconds=15.0)


class Uploads:
    """Two jobs: `slack_upload` fetches a file, `slack_uploaded` looks how far its reading is."""

    def __init__(self, app: "App", house: SlackHouse) -> None:
        self._app, self._house = app, house
        self._words, self._language = app.words, app.settings.review.language
        self._deliverer = Deliverer(app.store.deliveries, app.store.changes, app.platforms)
        self._hosts = {*SLACK_HOSTS, urlsplit(house.settings.api_url).netloc}
        app.store.queue.task("slack_upload", self.fetch, retry=TRYING, exhausted=self._given_up)
        app.store.queue.task("slack_uploaded", self.look, retry=TRYING)

    async def defer(self, file: str, user: str, collection: str, audience: Sequence[str] = ()) -> None:
        """Store the wish; a job fetches the file after the acknowledgement."""
        await self._app.store.queue.defer(
            "slack_upload",
            {"file": file, "user": user, "collection": collection, "audience": list(audience)},
            lock=f"slack_upload:{file}",
        )

    async def fetch(self, file: str, user: str, collection: str, audience: list[str]) -> None:
        try:
            info = (await self._house.calls(self._house.calls.client.files_info, file=file))["file"]
        except NotTaken as error:
            await self._tell(f"upload:{file}", user, "download_failed", name=file, detail=str(error))
            return
        name = str(info.get("name") or file)
        problem, data = await self._take(info, name)
        if problem:
            await self._tell(
                f"upload:{file}", user, problem, name=name, detail=data.decode("utf-8", "replace")
            )
            return
        try:
            version = await self._app.admin.upload(
                name, data, collection=collection, by=f"slack:{user}", audience=tuple(audience) or None
            )
        except IngestError as error:
            await self._say(f"upload:{file}", user, self._failure(error.code, name, error.detail))
            return
        if version.state == "live":
            await self._tell(f"upload:{file}", user, "add_duplicate", name=name, collection=collection)
            return
        await self._tell(f"upload:{file}", user, "add_started", name=name)
        await self._look_later(version.id, file, user, collection)

    async def _take(self, info: Mapping[str, Any], name: str) -> tuple[str, bytes]:
        """("", the bytes), or (the key of what is wrong, its detail)."""
        if info.get("is_external") or info.get("mode") == "external":
            return "external", b""
        url = str(info.get("url_private_download") or info.get("url_private") or "")
        if urlsplit(url).netloc not in self._hosts:
            return "external", b""
        if PurePosixPath(name).suffix.lower() not in READABLE:
            return "no_such_type", b""
        limit = self._app.settings.ingest.max_megabytes * 1_000_000
        try:
            kind, data = await self._house.calls.download(url, limit)
        except NotTaken as error:
            return "download_failed", str(error).encode()
        begins = data[:64].lstrip().lower()
        if kind == "text/html" or begins.startswith(HTML):
            return "login_page", b""
        if name.lower().endswith(".pdf") and not data.startswith(b"%PDF-"):
            return "wrong_type", b"PDF"
        if not name.lower().endswith(".pdf") and (data.startswith(b"%PDF-") or b"\0\0\0" in data[:4_096]):
            return "wrong_type", (kind or "binary").encode()
        return "", data

    async def look(self, version: int, file: str, user: str, collection: str) -> None:
        """Bring the direct message to what the document's state is; look again while it is being read."""
        try:
            row = await self._app.store.documents.version(version)
            document = await self._app.store.documents.show(row.document_id)
        except NotFound:
            return
        if row.state in FINISHED:
            await self._redraw(
                file, user, await self._result(row, document.title, document.source, collection)
            )
            return
        await self._look_later(version, file, user, collection)

    async def _look_later(self, version: int, file: str, user: str, collection: str) -> None:
        await self._app.store.queue.defer(
            "slack_uploaded",
            {"version": version, "file": file, "user": user, "collection": collection},
            lock=f"slack_uploaded:{version}",
            schedule_in=LOOK_EVERY,
        )

    async def _result(self, row: VersionRow, title: str, source: str, collection: str) -> str:
        if row.state == "failed":
            return self._failure(row.error_code or "internal", source, row.error_detail or "")
        chunks = await self._app.store.documents.chunks(row.id)
        begins = "\n".join(chunk.text for chunk in chunks[:PREVIEW_CHUNKS])[:PREVIEW_LETTERS]
        quoted = "\n".join(f"> {line}" for line in begins.splitlines())
        done = self._words(
            self._language, "slack.kb.add_done", name=title, chunks=row.chunk_count, collection=collection
        )
        return f"{done}\n\n{quoted}"

    def _failure(self, code: str, name: str, detail: str) -> str:
        known = f"ingest.{code}.what" in self._words.keys(self._language)
        key = code if known else "internal"
        what = self._words(self._language, f"ingest.{key}.what", name=name, detail=detail)
        return f"{what} {self._words(self._language, f'ingest.{key}.remedy')}"

    async def _tell(self, purpose: str, user: str, key: str, **values: object) -> None:
        await self._say(purpose, user, self._words(self._language, f"slack.kb.{key}", **values))

    async def _say(self, purpose: str, user: str, text: str) -> DeliveryRow:
        reply = Reply("notice", text, self._language)
        new = NewDelivery(
            purpose=purpose, platform="slack", kind="notice", address={"user": user}, content=reply.to_json()
        )
        return await self._deliverer.deliver(new)

    async def _redraw(self, file: str, user: str, text: str) -> None:
        row = await self._say(f"upload:{file}", user, text)
        if row.content["text"] != text:
            await self._deliverer.redraw(row, Reply("notice", text, self._language))

    async def _given_up(self, file: str, user: str, collection: str, audience: list[str]) -> None:
        await self._tell(f"upload:{file}", user, "download_failed", name=file, detail="Slack")
