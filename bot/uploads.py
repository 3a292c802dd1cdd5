"""A document handed over in a chat: stored, read by the worker, and its fate told to whoever handed it in."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from bot.messages import Reply
from bot.principals import unreadable
from store.deliveries import DeliveryRow, NewDelivery
from store.documents import VersionRow
from store.errors import IngestError, NotFound
from store.ingest.formats import SUFFIXES, Limits, detect
from store.queue import Retry

if TYPE_CHECKING:
    from bot.app import App

LOOK_EVERY = 1.0  # seconds between two looks at a document that is being read
PREVIEW_CHUNKS, PREVIEW_LETTERS = 2, 600
FINISHED = frozenset({"live", "retired", "failed"})
TRYING = Retry(attempts=4, initial_seconds=1.0, longest_seconds=15.0)

# Where a file is → ("", its bytes), or (the key of what is wrong, its detail).
Fetch = Callable[[Mapping[str, Any]], Awaitable[tuple[str, bytes]]]


def names_page(words: Sequence[str]) -> bool:
    """Whether what follows "add" is the address of a page."""
    return bool(words) and words[0].startswith(("http://", "https://"))


class Uploads:
    """Two jobs: `<platform>_upload` fetches a file, `<platform>_uploaded` looks how far its reading is."""

    def __init__(self, app: "App", platform: str, fetch: Fetch) -> None:
        self._app, self._platform, self._fetch = app, platform, fetch
        self._words, self._language = app.words, app.settings.review.language
        self._limits = Limits(bytes=app.settings.ingest.max_megabytes * 1_000_000)
        app.store.queue.task(f"{platform}_upload", self.take, retry=TRYING, exhausted=self._given_up)
        app.store.queue.task(f"{platform}_uploaded", self.look, retry=TRYING)

    async def defer(self, file: Mapping[str, Any], person: str, collection: str, audience: list[str]) -> None:
        """Store the wish; a job fetches the file. `file` has a key and a name, and whatever `fetch` needs."""
        await self._app.store.queue.defer(
            f"{self._platform}_upload",
            {"file": dict(file), "person": person, "collection": collection, "audience": audience},
            lock=f"{self._platform}_upload:{file['key']}",
        )

    async def defer_page(self, url: str, person: str, collection: str, audience: list[str]) -> None:
        """Store the wish to read an address of the web; a job fetches it."""
        await self.defer({"key": uuid.uuid4().hex, "name": url, "page": True}, person, collection, audience)

    async def add_page(self, person: str, words: Sequence[str]) -> str:
        """add ADDRESS [COLLECTION [PRINCIPAL…]]: the wish is stored; returns what its author reads."""
        url, collection, *audience = [*words, "general"] if len(words) == 1 else words
        wrong = unreadable(audience)
        if wrong:
            return self._words(self._language, "chat.kb.no_principal", names=" ".join(wrong))
        await self.defer_page(url, person, collection, audience)
        return self._words(self._language, "chat.kb.add_started", name=url)

    async def take(self, file: dict[str, Any], person: str, collection: str, audience: list[str]) -> None:
        name, data = str(file["name"]), b""
        chosen = tuple(audience) or None
        try:
            if file.get("page"):
                version = await self._app.admin.add_url(
                    name, collection=collection, by=person, audience=chosen
                )
            else:
                problem, data = await self._looked_at(file, name)
                if problem:
                    detail = data.decode("utf-8", "replace")
                    await self._tell(file, person, problem, name=name, detail=detail)
                    return
                # What is not what its name says is told now, and not stored.
                await asyncio.to_thread(detect, data, name, self._limits)
                version = await self._app.admin.upload(
                    name, data, collection=collection, by=person, audience=chosen
                )
        except IngestError as error:
            await self._say(file, person, self._failure(error.code, name, error.detail))
            return
        if version.state == "live":
            await self._tell(file, person, "add_duplicate", name=name, collection=collection)
            return
        await self._tell(file, person, "add_started", name=name)
        await self._look_later(version.id, file, person, collection)

    async def _looked_at(self, file: Mapping[str, Any], name: str) -> tuple[str, bytes]:
        """The file's bytes, or (the key of what is wrong, its detail). Only its ending is judged before it is
        fetched."""
        if PurePosixPath(name).suffix.lower() not in SUFFIXES:
            return "no_such_type", b""
        return await self._fetch(file)

    async def look(self, version: int, file: dict[str, Any], person: str, collection: str) -> None:
        """Bring the message to what the document's state is; look again while it is being read."""
        try:
            row = await self._app.store.documents.version(version)
            document = await self._app.store.documents.show(row.document_id)
        except NotFound:
            return
        name = str(file["name"])
        if row.state in FINISHED:
            await self._redraw(file, person, await self._result(row, document.title, name, collection))
            return
        progress = row.progress
        if progress:
            step = self._words(self._language, f"web.documents.steps.{progress['step']}")
            done, of = progress["done"], progress["of"]
            reading = self._words(
                self._language, "chat.kb.add_reading", name=name, step=step, done=done, of=of
            )
            await self._redraw(file, person, reading)
        await self._look_later(version, file, person, collection)

    async def _redraw(self, file: Mapping[str, Any], person: str, text: str) -> None:
        sent = await self._say(file, person, text)
        await self._app.deliverer.redraw(sent, Reply("notice", text, self._language))

    async def _look_later(self, version: int, file: Mapping[str, Any], person: str, collection: str) -> None:
        await self._app.store.queue.defer(
            f"{self._platform}_uploaded",
            {"version": version, "file": dict(file), "person": person, "collection": collection},
            lock=f"{self._platform}_uploaded:{version}",
            schedule_in=LOOK_EVERY,
        )

    async def _result(self, row: VersionRow, title: str, source: str, collection: str) -> str:
        if row.state == "failed":
            return self._failure(row.error_code or "internal", source, row.error_detail or "")
        chunks = await self._app.store.documents.chunks(row.id)
        begins = "\n".join(chunk.text for chunk in chunks[:PREVIEW_CHUNKS])[:PREVIEW_LETTERS]
        quoted = "\n".join(f"> {line}" for line in begins.splitlines())
        done = self._words(
            self._language, "chat.kb.add_done", name=title, chunks=row.chunk_count, collection=collection
        )
        if row.number > 1 and row.changes:
            done += " " + self._words(self._language, "chat.kb.add_changed", number=row.number, **row.changes)
        return f"{done}\n\n{quoted}"

    def _failure(self, code: str, name: str, detail: str) -> str:
        known = f"ingest.{code}.what" in self._words.keys(self._language)
        key = code if known else "internal"
        what = self._words(self._language, f"ingest.{key}.what", name=name, detail=detail)
        return f"{what} {self._words(self._language, f'ingest.{key}.remedy')}"

    async def _tell(self, file: Mapping[str, Any], person: str, key: str, **values: object) -> None:
        await self._say(file, person, self._words(self._language, f"chat.kb.{key}", **values))

    async def _say(self, file: Mapping[str, Any], person: str, text: str) -> DeliveryRow:
        return await self._app.deliverer.deliver(
            NewDelivery(
                purpose=f"upload:{file['key']}",
                platform=self._platform,
                kind="notice",
                address={"user": person.partition(":")[2]},
                content=Reply("notice", text, self._language).to_json(),
            )
        )

    async def _given_up(
        self, file: dict[str, Any], person: str, collection: str, audience: list[str]
    ) -> None:
        await self._tell(file, person, "download_failed", name=str(file["name"]), detail=self._platform)
