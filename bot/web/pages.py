"""Templates, and the blocks that a page is redrawn by.

A page is a list of blocks. When something changed, the page asks again and says which blocks it has, by a fingerprint
of their HTML; it gets those that differ, and nothing at all (204) where none does. So a reader's open details, focus
and half-written text survive whatever happens elsewhere on the page.
"""

import hashlib
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from bot.settings import Settings
from bot.web.people import EMPLOYEE, PERSONAS, People
from bot.web.views import Reader
from bot.web.visitor import Visitor, visitor
from bot.words import Words

FOLDER = Path(str(files("bot.web")))
# Times are shown relative to now by the browser; nothing else in a block may depend on when it was drawn.
NONCE = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Said:
    """A sentence for the person who clicked. `tone` is good, bad or plain."""

    text: str
    tone: str = "plain"


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a page that is redrawn on its own. `into` is the element that a new one is appended to."""

    id: str
    html: Markup
    into: str = "blocks"

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.html.encode()).hexdigest()[:12]


class Pages:
    """Renders. Everything in a template is escaped, except `Markup` from `render.py` and from here."""

    def __init__(self, settings: Settings, words: Words, people: People) -> None:
        self._settings = settings
        self._words = words
        self._people = people
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(FOLDER / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals["static"] = _static_address()

    def reader(self, request: Request) -> Reader:
        """For whom the page is drawn. Only where somebody is signed in."""
        found = visitor(request)
        if found.person is None:
            raise LookupError("this page needs somebody who is signed in")
        return Reader(found.person, found.language, found.base, self.say(found.language))

    def say(self, language: str) -> Any:
        def words(key: str, /, **values: object) -> str:
            return self._words(language, key, **values)

        return words

    def page(self, request: Request, template: str, /, status: int = 200, **values: Any) -> HTMLResponse:
        """A whole page."""
        found = visitor(request)
        query = f"?{request.url.query}" if request.url.query else ""
        shared = {
            "room": "",
            "notice": None,
            "here": request.url.path + query if request.method == "GET" else f"{found.base}/",
            "personas": self._personas(found) if self._people.personas else (),
        }
        html = self._render(found, template, {**shared, **values})
        return HTMLResponse(html, status_code=status)

    def fragment(self, request: Request, template: str, /, **values: Any) -> Markup:
        """A part of a page."""
        return Markup(self._render(visitor(request), template, values))  # noqa: S704 - escaped while rendering

    def block(
        self, request: Request, template: str, id: str, /, into: str = "blocks", **values: Any
    ) -> Block:
        return Block(id, self.fragment(request, template, **values), into)

    def blocks(self, request: Request, blocks: Sequence[Block]) -> Markup:
        """The blocks of a page that is drawn for the first time."""
        return self.fragment(request, "block.html", new=(), changed=blocks, gone=(), swap=False, notice=None)

    def changes(
        self,
        request: Request,
        blocks: Sequence[Block],
        seen: Sequence[str],
        *,
        said: Said | None = None,
        extra: Markup | None = None,
    ) -> Response:
        """What differs from the blocks that the page `seen` has, and a sentence. 204 where nothing does."""
        had = dict(entry.rpartition(":")[::2] for entry in seen)
        html = self.fragment(
            request,
            "block.html",
            new=[block for block in blocks if block.id not in had],
            changed=[b for b in blocks if b.id in had and had[b.id] != b.fingerprint],
            gone=[id for id in had if id not in {block.id for block in blocks} and ID.fullmatch(id)],
            swap=True,
            notice=said,
        )
        html += extra or Markup()
        if not html.strip():
            return Response(status_code=204)
        return HTMLResponse(html)

    def nonce(self) -> str:
        """The identity of one form: sent twice, it is one question."""
        return uuid.uuid4().hex

    def _render(self, found: Visitor, template: str, values: Mapping[str, Any]) -> str:
        words = self.say(found.language)

        def t(key: str, /, **arguments: object) -> str:
            return str(words(f"web.{key}", **arguments))

        shared = {
            "t": t,
            "words": words,
            "lang": found.language,
            "base": found.base,
            "person": found.person,
            "form_token": found.form_token,
            "workspace": self._settings.workspace.name,
            "channels": self._settings.workspace.channels,
            "longest": self._settings.workspace.question_characters,
        }
        return self._environment.get_template(template).render({**shared, **values})

    def _personas(self, found: Visitor) -> list[dict[str, str]]:
        words = self.say(found.language)
        first = {"reviewer": "/review", "admin": "/console/documents"}
        return [
            {
                "name": name,
                "label": words(f"web.person.{name}"),
                "href": "/" if name == EMPLOYEE else f"/~{name}{first[name]}",
            }
            for name in PERSONAS
        ]


ID = re.compile(r"[A-Za-z0-9_-]{1,80}")


def _static_address() -> Any:
    """Addresses of the static files with their content's hash: cached for ever, replaced with the next version."""
    folder = FOLDER / "static"
    versions = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:10]
        for path in folder.iterdir()
        if path.is_file()
    }

    def static(name: str) -> str:
        return f"/static/{name}?v={versions[name]}"

    return static
