"""A page or file from the web, for whoever may name any address: only what the open internet may be asked.

The name is resolved here, every address looked at, and the connection made to one of those very addresses, so that a
name that answers differently the second time gains nothing. Redirects are followed by hand and looked at the same
way. No proxy, no cookies, no credentials.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from email.message import Message
from fnmatch import fnmatchcase
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from store.errors import IngestError

__all__ = ["FetchLimits", "Fetched", "Fetcher", "allowed"]

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

_PORTS = (80, 443)
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TYPES = ("text/", "application/pdf", "application/xhtml+xml", "application/octet-stream",
          "application/vnd.openxmlformats-officedocument.", "application/zip", "binary/octet-stream")  # fmt: skip
# Cloud metadata behind addresses that are public by the book: Azure's wire server, Oracle's.
_METADATA = frozenset({"168.63.129.16", "192.0.0.192"})
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_CHUNK = 64 << 10


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """`bytes` after unpacking, `seconds` for everything, redirects to follow. `intranet` are hosts
    (`wiki.corp.example`, `*.corp.example`) that may lie in private networks and on any port."""

    bytes: int = 50_000_000
    seconds: float = 60.0
    redirects: int = 5
    intranet: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fetched:
    """`url` is where it was in the end. `etag` and `last_modified` ask next time whether it changed."""

    url: str
    data: bytes = field(repr=False)
    media_type: str = ""
    etag: str = ""
    last_modified: str = ""


def allowed(address: str, *, intranet: bool = False) -> bool:
    """Whether a connection may go to this IP address: a public one; in the `intranet` a private one, too, but never
    a link-local one, where clouds keep their machines' secrets."""
    try:
        ip = _plain(ipaddress.ip_address(address.partition("%")[0]))
    except ValueError:
        return False
    if ip is None or ip.is_multicast or ip.is_link_local or ip.is_unspecified or str(ip) in _METADATA:
        return False
    if intranet:
        return ip.is_global or ip.is_private or ip.is_loopback
    return ip.is_global


def _plain(ip: Address) -> Address | None:
    """The address that is meant: IPv4 inside IPv6 unwrapped; None for tunnels, whose end nobody knows."""
    if isinstance(ip, ipaddress.IPv4Address):
        return ip
    if ip.ipv4_mapped:
        return ip.ipv4_mapped
    if ip in _NAT64:
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    if ip.sixtofour or ip.teredo or int(ip) >> 32 == 0:
        return None
    return ip


async def _resolve(host: str, port: int) -> Sequence[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class _Known(AbstractResolver):
    """Answers with the addresses that were looked at, and nothing else."""

    def __init__(self, host: str, addresses: Sequence[str]) -> None:
        self._host, self._addresses = host, addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        if host != self._host:
            raise OSError(f"{host} was not looked at")
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self._addresses
        ]

    async def close(self) -> None:
        """Nothing is held."""


class Fetcher:
    """Fetches one address at a time. `resolve` is replaced in tests."""

    def __init__(self, limits: FetchLimits, resolve: Resolve = _resolve) -> None:
        self._limits = limits
        self._resolve = resolve

    async def fetch(self, url: str, *, etag: str = "", last_modified: str = "") -> Fetched | None:
        """The page's bytes; None where the server says that it has not changed since.

        Raises `IngestError`: not_http, address_refused (detail: the host), unreachable (detail: the status, or what
        kind of fault), too_large, too_slow, unsupported (detail: its type).
        """
        asked = {"If-None-Match": etag, "If-Modified-Since": last_modified}
        try:
            async with asyncio.timeout(self._limits.seconds):
                return await self._follow(url, {name: value for name, value in asked.items() if value})
        except TimeoutError as error:
            raise IngestError("too_slow", f"{self._limits.seconds:g} s") from error
        except (aiohttp.ClientError, OSError, UnicodeError, ValueError) as error:
            raise IngestError("unreachable", type(error).__name__) from error

    async def _follow(self, url: str, headers: dict[str, str]) -> Fetched | None:
        at = self._checked(url)
        for _ in range(self._limits.redirects + 1):
            addresses = await self._addresses(at)
            # A connector for each step: one kept open could be used for another host's name.
            connector = aiohttp.TCPConnector(
                resolver=_Known(at.raw_host or "", addresses), use_dns_cache=False
            )
            async with (
                aiohttp.ClientSession(
                    connector=connector,
                    cookie_jar=aiohttp.DummyCookieJar(),
                    headers={"User-Agent": "Signoff", "Accept": "*/*"},
                    trust_env=False,
                ) as session,
                session.get(at, headers=headers, allow_redirects=False) as response,
            ):
                if response.status not in _REDIRECTS:
                    return await self._read(at, response)
                at = self._checked(str(at.join(URL(response.headers.get("Location", "")))))
        raise IngestError("unreachable", "redirects")

    def _checked(self, url: str) -> URL:
        try:
            parts = URL(url.strip())
        except ValueError:
            raise IngestError("not_http") from None
        if parts.scheme not in ("http", "https") or not parts.raw_host:
            raise IngestError("not_http")
        if parts.user is not None or parts.password is not None:
            raise IngestError("address_refused", parts.host or "")
        if parts.port not in _PORTS and not self._intranet(parts.raw_host):
            raise IngestError("address_refused", f"{parts.host}:{parts.port}")
        return parts.with_fragment(None)

    def _intranet(self, host: str) -> bool:
        return any(
            fnmatchcase(host.lower().rstrip("."), pattern.lower()) for pattern in self._limits.intranet
        )

    async def _addresses(self, url: URL) -> Sequence[str]:
        """Every address of the host; none may be one that is refused."""
        host = url.raw_host or ""
        found = [host] if _is_literal(host) else await self._resolve(host, url.port or 0)
        intranet = self._intranet(host)
        if not found or not all(allowed(address, intranet=intranet) for address in found):
            raise IngestError("address_refused", url.host or "")
        return found

    async def _read(self, url: URL, response: aiohttp.ClientResponse) -> Fetched | None:
        if response.status == 304:
            return None
        if response.status != 200:
            raise IngestError("unreachable", str(response.status))
        media_type = response.content_type
        if not media_type.startswith(_TYPES):
            raise IngestError("unsupported", media_type)
        parts: list[bytes] = []
        size = 0
        async for part in response.content.iter_chunked(_CHUNK):
            size += len(part)
            if size > self._limits.bytes:
                raise IngestError("too_large", f"{self._limits.bytes // 1_000_000} MB")
            parts.append(part)
        data = _in_utf8(b"".join(parts), response.headers.get("Content-Type", ""))
        told = {name: response.headers.get(header, "") for name, header in _VALIDATORS}
        return Fetched(str(url), data, media_type, **told)


_VALIDATORS = (("etag", "ETag"), ("last_modified", "Last-Modified"))


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _in_utf8(data: bytes, content_type: str) -> bytes:
    """Text in another encoding, which only the server's header names, as UTF-8 with its mark."""
    header = Message()
    header["Content-Type"] = content_type
    charset: Any = header.get_content_charset("")
    if not content_type.startswith("text/") or charset in ("", "utf-8", "utf8", "us-ascii"):
        return data
    try:
        return b"\xef\xbb\xbf" + data.decode("gb18030" if charset in ("gb2312", "gbk") else charset).encode()
    except (LookupError, UnicodeDecodeError):
        return data
