"""/kb, whatever the platform: one table drives what it does, its help, and the usage hints of the manifests."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any

from bot.canary_command import typed
from bot.doctor import examine
from bot.gaps import Cluster
from bot.pausing import pause, pauses, place_of
from bot.principals import unreadable
from bot.telling import age, opinion, reason
from store.catalogue import CollectionRow
from store.errors import NotFound
from store.insight import Gap
from store.verified import VerifiedRow

if TYPE_CHECKING:
    from bot.app import App

GAPS_SHOWN = 12  # clusters shown of each week
STATS_DAYS = 7
KINDS = ("unknown", "rejected", "unhelpful")
INHERIT = "inherit"
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
            "verified": Command(self._verified),
            "ramp": Command(self._ramp),
            "pause": Command(self._pause),
            "canary": Command(self._canary),
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
        if words:
            return await self._own_gap(person, words)
        every = await self._app.gaps.clusters(private=True)
        shown = {
            week: list(found)
            for week, found in groupby(await self._app.gaps.clusters(), key=lambda c: c.week)
        }
        lines: list[str] = []
        for week, found in groupby(every, key=lambda cluster: cluster.week):
            gaps = [gap for cluster in found for gap in cluster.gaps]
            counted = Counter(gap.kind for gap in gaps)
            lines.append(self._say("gaps_week", week=week, **{kind: counted[kind] for kind in KINDS}))
            clusters = shown.get(week, [])
            lines += [self._cluster(cluster) for cluster in clusters[:GAPS_SHOWN]]
            if hidden := sum(gap.private for gap in gaps):
                lines.append(self._say("gaps_private", count=hidden))
            if (more := len(clusters) - GAPS_SHOWN) > 0:
                lines.append(self._say("gaps_more", count=more))
        return "\n".join(lines) or self._say("empty")

    async def _own_gap(self, person: str, words: list[str]) -> str:
        """gaps own KEY [PERSON]: who sees to it; nobody, where none is named."""
        if words[0] != "own" or not 2 <= len(words) <= 3 or unreadable(words[2:]):
            return self._say("gaps_how")
        owner = words[2] if len(words) == 3 else ""
        cluster = await self._app.gaps.own(words[1], owner, person)
        if cluster is None:
            return self._say("gaps_unknown", gap=words[1])
        return self._cluster(cluster)

    def _cluster(self, cluster: Cluster) -> str:
        line = self._gap(cluster.gaps[0])
        if len(cluster.gaps) > 1:
            line += self._say("gap_times", count=len(cluster.gaps))
        owner = self._say("gap_owner", who=cluster.owner) if cluster.owner else ""
        return f"{line}{owner} · {cluster.key}"

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

    async def _verified(self, person: str, words: list[str]) -> str:
        """verified: those in service or with a reviewer; show ID; retire ID, and with "wrong" the answers that were
        given from it are taken back as well."""
        if not self._app.settings.review.verified:
            return self._say("verified_off")
        if not words:
            return await self._verified_list()
        verb, number, *rest = [*words, ""]
        known = verb in ("show", "retire") and number.isdigit() and len(number) <= 15
        if not known or [word for word in rest if word not in ("", "wrong")]:
            return self._say("verified_how")
        try:
            row = await self._app.store.verified.get(int(number))
        except NotFound:
            return self._say("verified_absent", id=number)
        if verb == "show":
            return await self._verified_shown(row)
        wrong = "wrong" in rest
        retired = await self._app.verifying.retire(
            row.id, person, "wrong" if wrong else "retired", wrong=wrong
        )
        return self._say("verified_done" if retired else "verified_twice", id=row.id)

    async def _verified_list(self) -> str:
        uses = await self._app.store.verified.counts()
        rows = await self._app.store.verified.list()
        return "\n".join(self._verified_line(row, uses.get(row.id, 0)) for row in rows) or self._say("empty")

    def _verified_line(self, row: VerifiedRow, uses: int) -> str:
        known = row.reason in ("changed", "old")
        reason = self._say(f"verified_reason_{row.reason}") if known else row.reason
        return self._say(
            "verified_line",
            id=row.id,
            state=self._say(f"verified_{row.state}", reason=reason),
            question=" ".join(row.question.split())[:SNIPPET],
            who=row.signed_by,
            day=f"{row.signed_at:%Y-%m-%d}",
            uses=uses,
        )

    async def _verified_shown(self, row: VerifiedRow) -> str:
        uses = await self._app.store.verified.counts()
        sources = await self._app.store.verified.sources(row.id)
        return "\n\n".join(
            [
                self._verified_line(row, uses.get(row.id, 0)),
                str(row.answer["text"]),
                self._say("verified_readers", audience=" ".join(row.audience)),
                *(self._say("verified_source", title=s.title, text=s.text[:SNIPPET]) for s in sources),
            ]
        )

    async def _ramp(self, person: str, words: list[str]) -> str:
        """ramp: where each topic stands; ramp back TOPIC: everything of it is held again, and counted anew."""
        trust = self._app.trust
        if not trust.ramp.after:
            return self._say("ramp_off")
        if words[:1] == ["back"] and len(words) == 2:
            key = "ramp_back" if await trust.put_back(words[1], person) else "ramp_unknown"
            return self._say(key, topic=words[1])
        if words:
            return self._say("ramp_how")
        lines = [
            self._say(
                "ramp_sampled" if topic.standing.sampled else "ramp_held",
                topic=topic.name,
                percent=f"{trust.ramp.percent:g}",
                streak=topic.standing.streak,
                left=topic.standing.left,
                falls=topic.standing.falls,
            )
            for topic in await trust.topics()
        ]
        return "\n".join(lines) or self._say("ramp_empty")

    async def _canary(self, person: str, words: list[str]) -> str:
        said = await typed(self._app, self._language, person, words)
        return self._say("canary_how") if said is None else said

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
