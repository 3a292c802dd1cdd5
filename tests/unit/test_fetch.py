"""Pages from the web: what may be asked, that nothing else is, and what a server may answer."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from store.errors import IngestError
from store.ingest.fetch import Fetched, Fetcher, FetchLimits, allowed

PUBLIC = "93.184.215.14"


class Names:
    """Answers for names, in turn, and remembers who asked."""

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        self.answers = {name.replace("_", "."): list(turns) for name, turns in answers.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, _port: int) -> Sequence[str]:
        self.asked.append(host)
        turns = self.answers.get(host)
        if not turns:
            raise OSError("no such name")
        return turns.pop(0) if len(turns) > 1 else turns[0]


class Server:
    """A web server on loopback that remembers what it was asked."""

    def __init__(self) -> None:
        self.requests: list[web.BaseRequest] = []
        self.answer: Callable[[web.BaseRequest], Any] = lambda _: web.Response(text="# Hello")
        self.port = 0

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(request)
        answer = self.answer(request)
        response: web.StreamResponse = await answer if asyncio.iscoroutine(answer) else answer
        return response

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Server"]:
        runner = web.ServerRunner(web.Server(self), shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.port = runner.addresses[0][1]
        try:
            yield self
        finally:
            await runner.cleanup()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server().running() as running:
        yield running


def inside(server: Server, **limits: Any) -> tuple[Fetcher, str]:
    """A fetcher that may ask `wiki.corp.example`, which is the server, and the address of a page there."""
    names = Names(wiki_corp_example=[["127.0.0.1"]])
    fetcher = Fetcher(FetchLimits(intranet=("*.corp.example",), **limits), names)
    return fetcher, f"http://wiki.corp.example:{server.port}/page"


async def refusal(fetcher: Fetcher, url: str) -> tuple[str, str]:
    with pytest.raises(IngestError) as caught:
        await fetcher.fetch(url)
    return caught.value.code, caught.value.detail


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.9.9.9", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "100.100.100.200",
        "169.254.169.254", "168.63.129.16", "192.0.0.192", "198.18.0.1", "224.0.0.1", "255.255.255.255", "240.0.0.1",
        "::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:a9fe:a9fe", "::7f00:1", "64:ff9b::7f00:1",
        "64:ff9b::a00:1", "2002:7f00:1::", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "fe80::1", "fe80::1%eth0",
        "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1", "no address", "",
    ],
)  # fmt: skip
def test_addresses_that_are_no_part_of_the_open_internet_are_refused(address: str) -> None:
    """Loopback, private, shared, link-local, metadata, multicast, reserved: in IPv4, IPv6 and every way to write the
    one in the other."""
    assert not allowed(address)


@pytest.mark.parametrize(
    "address", [PUBLIC, "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "::ffff:93.184.215.14"]
)
def test_public_addresses_are_allowed(address: str) -> None:
    """What everybody may reach, the fetcher may."""
    assert allowed(address)


def test_the_intranet_is_no_way_to_the_machines_secrets() -> None:
    """A host on the list may be private, never link-local or a cloud's metadata."""
    assert allowed("10.1.2.3", intranet=True)
    assert allowed("127.0.0.1", intranet=True)
    for secret in ("169.254.169.254", "fe80::1", "168.63.129.16", "::ffff:169.254.169.254"):
        assert not allowed(secret, intranet=True)


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("file:///etc/passwd", "not_http"),
        ("ftp://example.org/a", "not_http"),
        ("example.org/a", "not_http"),
        ("http://", "not_http"),
        ("gopher://example.org", "not_http"),
        ("http://user:password@example.org/", "address_refused"),
        ("http://example.org:22/", "address_refused"),
        ("http://127.0.0.1/", "address_refused"),
        ("http://[::1]/", "address_refused"),
        ("http://[::ffff:10.0.0.1]/", "address_refused"),
        ("http://169.254.169.254/latest/meta-data/", "address_refused"),
        ("http://inside.example/", "address_refused"),
        ("http://both.example/", "address_refused"),
        ("http://nowhere.example/", "unreachable"),
    ],
)
async def test_addresses_are_judged_before_anything_is_sent(url: str, code: str) -> None:
    """Scheme, port, credentials and every address of the name: one private address among public ones is enough."""
    names = Names(inside_example=[["10.0.0.1"]], both_example=[[PUBLIC, "127.0.0.1"]], example_org=[[PUBLIC]])
    assert (await refusal(Fetcher(FetchLimits(), names), url))[0] == code


@pytest.mark.parametrize(
    "host", ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "localhost", "localhost."]
)
async def test_other_ways_to_write_loopback_are_resolved_and_refused(host: str) -> None:
    """What the system makes of a name is looked at, however it is written."""
    code, _ = await refusal(Fetcher(FetchLimits()), f"http://{host}/")
    assert code in ("address_refused", "unreachable")


async def test_a_name_is_asked_once_and_the_answer_is_connected_to(server: Server) -> None:
    """A name that answers with a public address first and a private one later gains nothing: it is asked once, and
    the connection goes to what was looked at."""
    names = Names(rebinding_example=[["127.0.0.1"], ["10.0.0.1"]])
    fetcher = Fetcher(FetchLimits(intranet=("rebinding.example",)), names)
    found = await fetcher.fetch(f"http://rebinding.example:{server.port}/a")
    assert isinstance(found, Fetched)
    assert names.asked == ["rebinding.example"]
    turned = Names(rebinding_example=[[PUBLIC], ["127.0.0.1"]])
    limits = FetchLimits(seconds=0.3)
    await refusal(Fetcher(limits, turned), "http://rebinding.example/")
    assert turned.asked == ["rebinding.example"]
    assert len(server.requests) == 1


async def test_a_redirect_is_judged_like_the_first_address(server: Server) -> None:
    """A page may not send the fetcher where its link would not have been followed."""
    fetcher, url = inside(server)
    for target in (
        "http://169.254.169.254/latest/",
        "file:///etc/passwd",
        "http://localhost/",
        "http://10.0.0.1/",
    ):
        server.answer = lambda _, target=target: web.Response(status=302, headers={"Location": target})  # type: ignore[misc]
        code, _ = await refusal(fetcher, url)
        assert code in ("address_refused", "not_http", "unreachable")
    assert len(server.requests) == 4


async def test_redirects_are_followed_to_their_end(server: Server) -> None:
    """A relative redirect leads on; one that goes round is given up."""
    fetcher, url = inside(server)
    server.answer = lambda request: (
        web.Response(status=301, headers={"Location": "/new"})
        if request.path == "/page"
        else web.Response(text="x")
    )
    found = await fetcher.fetch(url)
    assert found is not None
    assert found.url.endswith("/new")
    server.answer = lambda _: web.Response(status=302, headers={"Location": "/page"})
    assert await refusal(fetcher, url) == ("unreachable", "redirects")


async def test_no_credentials_or_cookies_are_sent(server: Server) -> None:
    """Each request is a stranger's."""
    fetcher, url = inside(server)
    server.answer = lambda request: (
        web.Response(status=302, headers={"Location": "/new", "Set-Cookie": "a=b"})
        if request.path == "/page"
        else web.Response(text="x")
    )
    await fetcher.fetch(url)
    for request in server.requests:
        assert not {"Cookie", "Authorization", "Proxy-Authorization", "Referer"} & set(request.headers)


async def test_an_unchanged_page_is_not_read_again(server: Server) -> None:
    """The server's own marks go back to it, and its 304 is None."""
    fetcher, url = inside(server)
    server.answer = lambda request: (
        web.Response(status=304)
        if request.headers.get("If-None-Match") == '"7"'
        else web.Response(text="x", headers={"ETag": '"7"', "Last-Modified": "Mon, 30 Nov 2026 10:00:00 GMT"})
    )
    first = await fetcher.fetch(url)
    assert first is not None
    assert (first.etag, first.media_type) == ('"7"', "text/plain")
    assert await fetcher.fetch(url, etag=first.etag, last_modified=first.last_modified) is None
    assert server.requests[-1].headers["If-Modified-Since"] == "Mon, 30 Nov 2026 10:00:00 GMT"


async def test_a_text_in_the_encoding_its_header_names_is_read(server: Server) -> None:
    """What only the header knows is kept: the bytes come back as UTF-8 with its mark."""
    fetcher, url = inside(server)
    server.answer = lambda _: web.Response(
        body="<p>こんにちは".encode("shift_jis"), headers={"Content-Type": "text/html; charset=Shift_JIS"}
    )
    found = await fetcher.fetch(url)
    assert found is not None
    assert found.data.decode("utf-8-sig") == "<p>こんにちは"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda: web.Response(status=404), ("unreachable", "404")),
        (lambda: web.Response(status=401), ("unreachable", "401")),
        (lambda: web.Response(body=b"x" * 20, content_type="video/mp4"), ("unsupported", "video/mp4")),
        (lambda: web.Response(body=b"x" * 1_500_000, content_type="text/plain"), ("too_large", "1 MB")),
    ],
)
async def test_answers_that_are_no_document_say_why(
    server: Server, answer: Callable[[], web.Response], expected: tuple[str, str]
) -> None:
    """Status, type and size each end in a reason."""
    fetcher, url = inside(server, bytes=1_000_000)
    server.answer = lambda _: answer()
    assert await refusal(fetcher, url) == expected


async def test_a_packed_answer_is_measured_unpacked(server: Server) -> None:
    """A small answer that unpacks to a large one is too large."""
    fetcher, url = inside(server, bytes=1_000_000)

    def packed(_: web.BaseRequest) -> web.Response:
        response = web.Response(body=b"\0" * 20_000_000, content_type="text/plain")
        response.enable_compression(web.ContentCoding.gzip)
        return response

    server.answer = packed
    assert await refusal(fetcher, url) == ("too_large", "1 MB")


async def test_a_server_that_drips_is_given_up(server: Server) -> None:
    """All of it together has so many seconds."""
    fetcher, url = inside(server, seconds=0.3)

    async def drip(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        for _ in range(50):
            await response.write(b"x")
            await asyncio.sleep(0.1)
        return response

    server.answer = drip
    assert await refusal(fetcher, url) == ("too_slow", "0.3 s")
