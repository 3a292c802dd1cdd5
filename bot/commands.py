"""/kb, whatever the platform: one table drives what it does, its help, and the usage hints of the manifests."""

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any

from bot.doctor import examine
from bot.pausing import pause, pauses, place_of
from bot.telling import age, opinion, reason
from store.catalogue import CollectionRow
from store.errors import NotFound
from store.insight import Gap

if TYPE_CHECKING:
    from bot.app import App

GAP_DAYS, GAPS_SHOWN = 28, 12  # days looked back; questions shown of each week
STATS_DAYS = 7
KINDS = ("unknown", "rejected", "unhelpful")
INHERIT = "inherit"
PRINCIPAL = re.compile(r"everyone|(slack|feishu|web|cli):[^\s,]+")
SNIPPET = 160


@dataclass(frozen=True, slots=True)
class Command:
    """`run(person, words)` returns what the person reads; `person` is a principal. A slow one may take seconds."""

    run: Callable[[str, list[str]], Awaitable[str]]
    admin: bool = True
    slow: bool = False


class Table:
    """`platform` is the one that this is typed on. Houses translate their own mentions of people, groups and channels
    into principals first, and the word "here" into the channel's."""

    def __init__(self, app: "App", platform: str) -> None:
        self._app, self._platform = app, platform
        self._words, self._language = app.words, app.settings.review.language
        self.commands: Mapping[str, Command] = {
            "help": Command(self._help, admin=False),
            "add": Command(self._how_to_add),
            "list": Command(self._list),
            "show": Command(self._show),
            "remove": Command(self._remove),
            "search": Command(self._search, slow=True),
            "status": Command(self._status, slow=True),
            "reviews": Command(self._reviews),
            "gaps": Command(self._gaps, slow=True),
            "stats": Command(self._stats, slow=True),
            "collections": Command(self._collections),
            "audience": Command(self._audience),
            "pause": Command(self._pause),
        }

    def _say(self, key: str, **values: object) -> str:
        return self._words(self._language, f"chat.kb.{key}", **values)

    async def _help(self, person: str, words: list[str]) -> str:
        lines = [f"/kb {name} – {self._say(f'help_{name}')}" for name in self.commands]
        return "\n".join([self._say("help"), *lines])

    async def _how_to_add(self, person: str, words: list[str]) -> str:
        return self._words(self._language, f"{self._platform}.kb.add_how")

    async def _list(self, person: str, words: list[str]) -> str:
        rows = await self._app.admin.list(words[0] if words else None)
        lines = [
            self._say("document_line", id=row.id, title=row.title, collection=row.collection, state=row.state)
            for row in rows
        ]
        return "\n".join(lines) or self._say("empty")

    async def _show(self, person: str, words: list[str]) -> str:
        row = await self._document(words)
        if isinstance(row, str):
            return row
        shown = await self._app.store.documents.show(row)
        head = self._say(
            "document_line", id=shown.id, title=shown.title, collection=shown.collection, state=shown.state
        )
        lines = [head, " ".join(shown.audience)]
        if shown.version_id is not None:
            chunks = await self._app.store.documents.chunks(shown.version_id)
            lines += [chunk.text for chunk in chunks[:3]]
        return "\n".join(lines)

    async def _document(self, words: list[str]) -> int | str:
        """The number of a document that exists, or the sentence that says what is wrong."""
        if not words or not words[0].isdigit() or len(words[0]) > 15:
            return self._say("not_a_number")
        try:
            return (await self._app.store.documents.show(int(words[0]))).id
        except NotFound:
            return self._say("not_found", id=words[0])

    async def _remove(self, person: str, words: list[str]) -> str:
        row = await self._document(words)
        if isinstance(row, str):
            return row
        title = (await self._app.store.documents.show(row)).title
        await self._app.admin.remove(row)
        return self._say("removed", title=title)

    async def _search(self, person: str, words: list[str]) -> str:
        found = await self._app.store.search.search(" ".join(words), ("everyone", person), top_k=5)
        lines = [f"{p.title} › {' › '.join(p.heading_path)}: {p.text[:SNIPPET]}" for p in found.passages]
        return "\n\n".join(lines) or self._say("empty")

    async def _status(self, person: str, words: list[str]) -> str:
        findings = [
            self._say(
                "status_line",
                mark="✓" if f.ok else "✗",
                name=f.name,
                detail=f"{f.detail} {f.remedy}".strip(),
            )
            for f in await examine(self._app)
        ]
        return "\n".join([*await self._pauses(), *findings])

    async def _reviews(self, person: str, words: list[str]) -> str:
        rows = await self._app.store.reviews.list("pending")
        lines = [
            self._say("reviews_line", reference=row.id, reason=row.reason, age=self._age(row.opened_at))
            for row in rows
        ]
        return "\n".join(lines) or self._say("empty")

    def _age(self, then: datetime) -> str:
        return age(self._words, self._language, then, datetime.now(UTC))

    async def _gaps(self, person: str, words: list[str]) -> str:
        """By week, what the documents did not settle: nobody knew, a reviewer refused, a reader was not helped. What
        people ask privately is counted, never shown."""
        lines: list[str] = []
        for week, found in groupby(await self._app.store.insight.gaps(_back(GAP_DAYS)), key=_week):
            gaps = list(found)
            counted = Counter(gap.kind for gap in gaps)
            lines.append(self._say("gaps_week", week=week, **{kind: counted[kind] for kind in KINDS}))
            shown = [gap for gap in gaps if not gap.private]
            lines += [self._gap(gap) for gap in shown[:GAPS_SHOWN]]
            if hidden := len(gaps) - len(shown):
                lines.append(self._say("gaps_private", count=hidden))
            if more := len(shown) - GAPS_SHOWN:
                lines += [self._say("gaps_more", count=more)] if more > 0 else []
        return "\n".join(lines) or self._say("empty")

    def _gap(self, gap: Gap) -> str:
        text, why = " ".join(gap.text.split())[:SNIPPET], " ".join(gap.reason.split())[:SNIPPET]
        said = (reason if gap.kind == "rejected" else opinion)(self._words, self._language, why)
        return self._say(
            "gap_line", kind=self._say(f"gap_{gap.kind}"), text=f"{text} – {said}" if said else text
        )

    async def _stats(self, person: str, words: list[str]) -> str:
        """The last seven days beside the seven before them."""
        now, week = datetime.now(UTC), timedelta(days=STATS_DAYS)
        late = asdict(await self._app.store.insight.stats(now - week, now))
        early = asdict(await self._app.store.insight.stats(now - 2 * week, now - week))
        lines = [self._say("stats_head", days=STATS_DAYS)]
        for name in late:
            value, before = (self._value(name, counts[name]) for counts in (late, early))
            lines.append(self._say("stats_line", name=self._say(f"stats_{name}"), value=value, before=before))
        return "\n".join(lines)

    def _value(self, name: str, value: Any) -> str:
        if value is None:
            return "–"
        if name.endswith("seconds"):
            return f"{value:.0f} s" if value < 120 else f"{value / 60:.0f} min"
        return str(value)

    async def _collections(self, person: str, words: list[str]) -> str:
        rows = await self._app.admin.list()
        documents = Counter(row.collection for row in rows)
        chunks = Counter[str]()
        for row in rows:
            chunks[row.collection] += row.chunk_count
        failed = Counter(row.collection for row in rows if row.state == "failed")
        lines = [
            self._say(
                "collection_line",
                name=row.name,
                count=documents[row.name],
                chunks=chunks[row.name],
                failed=failed[row.name],
                audience=" ".join(row.audience),
            )
            for row in await self._app.store.documents.collections()
        ]
        return "\n".join(lines) or self._say("empty")

    async def _audience(self, person: str, words: list[str]) -> str:
        """audience WHAT [PRINCIPAL…]: of a document by its number, or of a collection by its name. "inherit" makes a
        document follow its collection again."""
        if not words:
            return self._say("audience_how")
        principals = tuple(dict.fromkeys(words[1:]))
        wrong = unreadable([name for name in principals if name != INHERIT])
        if wrong:
            return self._say("no_principal", names=" ".join(wrong))
        names = {row.name: row for row in await self._app.store.documents.collections()}
        if words[0] in names:
            return await self._collection_audience(names[words[0]], principals)
        row = await self._document(words)
        if isinstance(row, str):
            return row
        if principals:
            await self._app.admin.set_audience(row, None if INHERIT in principals else principals)
        shown = await self._app.store.documents.show(row)
        return self._say("audience_set", title=shown.title, audience=" ".join(shown.audience))

    async def _collection_audience(self, row: CollectionRow, principals: tuple[str, ...]) -> str:
        if INHERIT in principals:
            return self._say("no_principal", names=INHERIT)
        if principals:
            await self._app.store.documents.set_collection_audience(row.name, principals)
        audience = principals or row.audience
        return self._say("audience_set", title=row.name, audience=" ".join(audience))

    async def _pause(self, person: str, words: list[str]) -> str:
        """pause, pause off: everywhere; pause CHANNEL [off], the channel as a principal, such as slack:C0123."""
        off = words[-1:] == ["off"]
        place = " ".join(words[:-1] if off else words)
        if not await pause(self._app.store, place, person, off=off):
            return self._say("pause_how")
        where = place or self._say("pause_everywhere")
        return self._say("paused_off" if off else "paused_on", where=where)

    async def _pauses(self) -> list[str]:
        """A line for each place where answering is paused."""
        return [
            self._say(
                "status_line",
                mark="⏸",
                name=self._say("pause_name"),
                detail=self._say(
                    "pause_since",
                    where=place_of(switch) or self._say("pause_everywhere"),
                    who=switch.set_by,
                    age=self._age(switch.set_at),
                ),
            )
            for switch in await pauses(self._app.store.switches)
        ]


def unreadable(names: Sequence[str]) -> list[str]:
    """Those of `names` that nobody could be."""
    return [name for name in names if not PRINCIPAL.fullmatch(name)]


def _back(days: int) -> datetime:
    return datetime.now(UTC) - timedelta(days=days)


def _week(gap: Gap) -> str:
    """The Monday of its week, ISO 8601."""
    return (gap.asked_at - timedelta(days=gap.asked_at.weekday())).strftime("%Y-%m-%d")
