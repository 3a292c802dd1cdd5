"""From converted Markdown to chunks, and the look at them before anything is stored. No Haystack here."""

import re
from dataclasses import dataclass, replace

from store import text as words
from store.chunks import NewChunk
from store.embedding import Embedder
from store.errors import IngestError
from store.ingest import reading
from store.ingest.formats import Converted, Limits, Report, detect
from store.ingest.split import Profile, SplitSettings, guess_profile, split

__all__ = ["IngestSettings", "Preview", "cleaned", "converted", "cut", "preview"]

# What models put around a text beyond what they count: a prefix and marks of begin and end.
WINDOW_RESERVE = 16


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """Chunk size and overlap in characters; limits of files (`max_megabytes` of memory while one is read); the
    profile where the collection sets none (None: guessed)."""

    chunk_characters: int = 400
    overlap_characters: int = 80
    max_bytes: int = 50_000_000
    max_pages: int = 2_000
    max_seconds: float = 900.0
    max_megabytes: int = 1_500
    profile: Profile | None = None

    @property
    def limits(self) -> Limits:
        return Limits(self.max_bytes, self.max_pages, self.max_seconds, self.max_megabytes)


@dataclass(frozen=True, slots=True)
class Preview:
    """What a file would become. `guessed`: nobody set the profile. `textless` pages are pictures without text."""

    title: str
    media_type: str
    profile: Profile
    guessed: bool
    chunks: tuple[NewChunk, ...]
    pages: int | None = None
    textless: tuple[int, ...] = ()


# Marks that are seen by nobody and split words for search: zero width, soft hyphen, direction, object replacement.
_INVISIBLE = re.compile(
    "[\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff\ufffc\u00ad\x01-\x08\x0b\x0e-\x1f\x7f]"
)
_SPACES = re.compile("[\u00a0\u2000-\u200a\u202f\u205f]")


def cleaned(converted: Converted) -> Converted:
    """What Postgres cannot store and nobody sees goes; runs of blank lines become one. Raises `IngestError`: empty."""
    text = words.clean(converted.markdown).replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n")
    text = _SPACES.sub(" ", _INVISIBLE.sub("", text))
    text = re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n"
    if not re.search(r"\w", re.sub(r"<!--.*?-->", "", text)):
        raise IngestError("empty")
    title = _SPACES.sub(" ", _INVISIBLE.sub("", words.clean(converted.title))).strip()
    return replace(converted, markdown=text, title=title)


def converted(data: bytes, name: str, limits: Limits, report: Report, media_type: str = "") -> Converted:
    """The file as clean Markdown. Blocks: call it in a thread. Raises `IngestError`."""
    kind = detect(data, name, limits, media_type)
    return cleaned(reading.read_safely(kind, data, name, limits, report))


def cut(
    document: Converted, settings: IngestSettings, profile: str | None, embedder: Embedder
) -> tuple[Profile, list[NewChunk]]:
    """The chunks, always within the model's window, and the profile they were cut by: the one set, or the one its
    marks suggest. Raises `IngestError`: empty."""
    chosen: Profile = profile or settings.profile or guess_profile(document.markdown)  # type: ignore[assignment]
    sizes = SplitSettings(
        size=settings.chunk_characters,
        overlap=settings.overlap_characters,
        window=embedder.max_tokens - WINDOW_RESERVE,
        count=embedder.count,
    )
    pieces = split(document.markdown, document.title, sizes, chosen)
    if not pieces:
        raise IngestError("empty")
    return chosen, [
        NewChunk(number, piece.heading_path, piece.page, piece.text) for number, piece in enumerate(pieces)
    ]


def preview(
    data: bytes,
    name: str,
    settings: IngestSettings,
    profile: str | None,
    embedder: Embedder,
    media_type: str = "",
) -> Preview:
    """What the file would become, without storing or embedding anything. Blocks. Raises `IngestError`."""
    document = converted(data, name, settings.limits, lambda _step, _done, _of: None, media_type)
    chosen, chunks = cut(document, settings, profile, embedder)
    return Preview(
        title=document.title,
        media_type=document.media_type,
        profile=chosen,
        guessed=not (profile or settings.profile),
        chunks=tuple(chunks),
        pages=document.pages,
        textless=document.textless,
    )
