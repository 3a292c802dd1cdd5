"""Who is looking: one of three personas on a developer's own machine, or whoever holds the console token."""

import base64
import binascii
import hashlib
import hmac
import json
import os
import secrets
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bot.settings import Settings

PLATFORM = "web"
EMPLOYEE, REVIEWER, ADMIN = "lin", "reviewer", "admin"
PERSONAS = (EMPLOYEE, REVIEWER, ADMIN)
COOKIE = "signoff"
SESSION_SECONDS = 7 * 24 * 3_600
KEY_FILE = "console.key"


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody in front of the workspace, and what they may open."""

    name: str
    principal: str  # web:<name>
    reviewer: bool
    admin: bool


@dataclass(frozen=True, slots=True)
class Session:
    """What the cookie carries. `name` is empty until somebody has signed in; `language` until it was chosen."""

    id: str
    name: str = ""
    language: str = ""
    issued: int = 0


class People:
    """Reads and writes the signed cookie, and knows who may do what."""

    def __init__(self, settings: Settings, *, personas: bool) -> None:
        self.personas = personas
        self._review = settings.review
        self._token = settings.console_token.get_secret_value() if settings.console_token else ""
        self._key = _key(self._token, settings.home)

    @property
    def closed(self) -> bool:
        """Nobody can get in: no personas here, and no token was set."""
        return not self.personas and not self._token

    def person(self, name: str) -> Person:
        principal = f"{PLATFORM}:{name}"
        return Person(
            name=name,
            principal=principal,
            reviewer=principal in self._review.reviewers,
            admin=principal in self._review.admins,
        )

    def admits(self, token: str) -> bool:
        """Whether `token` is the console token; compared in constant time."""
        return bool(self._token) and hmac.compare_digest(token.encode(), self._token.encode())

    def new(self) -> Session:
        return Session(id=secrets.token_hex(16), issued=int(time.time()))

    def signed_in(self, session: Session) -> Session:
        """A session with a new id, so that an id known before the sign-in is worth nothing after it."""
        return replace(self.new(), name=ADMIN, language=session.language)

    def write(self, session: Session) -> str:
        """The cookie's value."""
        payload = base64.urlsafe_b64encode(json.dumps(asdict(session)).encode()).decode().rstrip("=")
        return f"{payload}.{self._sign('cookie', payload)}"

    def read(self, cookie: str) -> Session | None:
        """The session in a cookie, or None where it is not ours or too old."""
        payload, _, signature = cookie.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._sign("cookie", payload).encode()):
            return None
        try:
            session = Session(**json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))))
        except (ValueError, TypeError, binascii.Error):
            return None
        return session if time.time() - session.issued < SESSION_SECONDS else None

    def form_token(self, session: Session) -> str:
        """What every form of this session must bring back."""
        return self._sign("form", session.id)

    def _sign(self, purpose: str, value: str) -> str:
        return hmac.new(
            self._key, f"{purpose}:{value}".encode("utf-8", "replace"), hashlib.sha256
        ).hexdigest()


def _key(token: str, home: Path) -> bytes:
    """The signing key: from the token, so that several serving processes agree; else a file of this home, so
    that a restart signs nobody out."""
    if token:
        return hashlib.sha256(b"signoff console\0" + token.encode()).digest()
    path = home / KEY_FILE
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_bytes()
    with os.fdopen(handle, "wb") as file:
        key = secrets.token_bytes(32)
        file.write(key)
    return key
