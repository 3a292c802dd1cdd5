"""Who sends a request: read once, before any page runs, and kept beside the request."""

from dataclasses import dataclass, replace

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bot.web.people import COOKIE, EMPLOYEE, PERSONAS, SESSION_SECONDS, People, Person, Session
from bot.words import LANGUAGES

KEY = "signoff.visitor"
MARK = "/~"  # /~reviewer/… is the same site as the reviewer, so that two tabs can be two persons
PASSING = "signoff.passing"  # a page that a strict cookie could not reach: a new one would end its session


@dataclass(frozen=True, slots=True)
class Visitor:
    """`person` is None until somebody has signed in."""

    session: Session
    person: Person | None
    language: str
    base: str
    form_token: str


def visitor(request: Request) -> Visitor:
    """The visitor of a request that passed `Visitors`."""
    found: Visitor = request.scope[KEY]
    return found


class Visitors:
    """Puts the visitor into the scope, and the cookie into the answer where it is new."""

    def __init__(self, app: ASGIApp, people: People) -> None:
        self._app = app
        self._people = people

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        session = self._people.read(HTTPConnection(scope).cookies.get(COOKIE, ""))
        fresh = session is None
        session = session or self._people.new()
        name, base = self._name(scope["path"], session)
        scope = {**scope, KEY: self._visitor(session, name, base, headers)}
        if base:
            scope["root_path"] = scope.get("root_path", "") + base
        secure = scope.get("scheme") == "https"

        async def with_cookie(message: Message) -> None:
            if fresh and PASSING not in scope and message["type"] == "http.response.start":
                sent = MutableHeaders(scope=message)
                # Only pages have forms: a probe, a file or a chat platform's event needs no session.
                if "set-cookie" not in sent and sent.get("content-type", "").startswith("text/html"):
                    given = give_cookie(Response(), self._people, session, secure=secure)
                    sent.append("set-cookie", given.headers["set-cookie"])
            await send(message)

        await self._app(scope, receive, with_cookie)

    def _name(self, path: str, session: Session) -> tuple[str, str]:
        """The persona that the address names, and the prefix that names it."""
        if not self._people.personas:
            return session.name, ""
        first = path.split("/", 2)[1] if path.startswith(MARK) else ""
        name = first.removeprefix("~")
        return (name, f"/{first}") if name in PERSONAS and name != EMPLOYEE else (EMPLOYEE, "")

    def _visitor(self, session: Session, name: str, base: str, headers: Headers) -> Visitor:
        return Visitor(
            session=session,
            person=self._people.person(name) if name else None,
            language=session.language or preferred(headers.get("accept-language", "")),
            base=base,
            form_token=self._people.form_token(session),
        )


def give_cookie(response: Response, people: People, session: Session, *, secure: bool) -> Response:
    """Strict: no other site's link or form brings it along."""
    response.set_cookie(
        COOKIE,
        people.write(session),
        max_age=SESSION_SECONDS,
        httponly=True,
        samesite="strict",
        secure=secure,
    )
    return response


def with_language(session: Session, language: str) -> Session:
    return replace(session, language=language if language in LANGUAGES else "")


def preferred(accepted: str) -> str:
    """The first of our languages that an Accept-Language header names, by its weights; English without one."""
    weighted = []
    for position, part in enumerate(accepted.split(",")[:20]):
        tag, _, quality = part.strip().partition(";q=")
        try:
            weight = float(quality) if quality else 1.0
        except ValueError:
            weight = 0.0
        weighted.append((-weight, position, tag.split("-")[0].lower()))
    return next((tag for weight, _, tag in sorted(weighted) if tag in LANGUAGES and weight < 0), "en")
