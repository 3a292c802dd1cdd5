"""The admin's side: files become versions, and search is looked at alone."""

from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from bot.pausing import pause, pauses
from bot.web import shelf_views
from bot.web.door import Site, by_htmx, feed, field, needs, posted, seen
from bot.web.pages import Block, Said
from bot.web.shelf_views import Failure
from bot.web.visitor import visitor
from store.errors import IngestError
from store.ingest.formats import SUFFIXES
from store.text import clean

MOST_FILES = 200
# All files of one drop together, in multiples of one file's limit; the rest comes with the next drop.
DROP_FACTOR = 4
FORM_BYTES = 1_000_000
TOP = 10


def routes(max_megabytes: int) -> list[Route]:
    documents = "/console/documents"
    one = documents + "/{document:int}"
    largest = max_megabytes * DROP_FACTOR * 1_000_000 + FORM_BYTES
    return [
        Route("/console", needs("admin", to_documents), methods=["GET"]),
        Route(documents, needs("admin", shelves), methods=["GET"]),
        Route(documents, needs("admin", upload), methods=["POST"], max_body_size=largest),
        Route("/console/pause", needs("admin", pausing), methods=["POST"]),
        Route(documents + "/changes", needs("admin", shelves_changes), methods=["GET"]),
        Route(documents + "/events", needs("admin", events), methods=["GET"]),
        Route(one, needs("admin", document), methods=["GET"]),
        Route(one + "/changes", needs("admin", document_changes), methods=["GET"]),
        Route(one + "/events", needs("admin", events), methods=["GET"]),
        Route(one + "/audience", needs("admin", audience), methods=["POST"]),
        Route(one + "/remove", needs("admin", remove), methods=["POST"]),
        Route("/console/search", needs("admin", search), methods=["GET"]),
    ]


async def to_documents(request: Request, site: Site) -> Response:
    return RedirectResponse(f"{visitor(request).base}/console/documents", status_code=303)


async def events(request: Request, site: Site) -> Response:
    return feed(site, ["documents"])


# --- the shelves -----------------------------------------------------------------------------------------------


async def shelves(request: Request, site: Site) -> Response:
    return await _shelves_page(request, site)


async def shelves_changes(request: Request, site: Site) -> Response:
    return site.pages.changes(request, await _shelves(request, site), seen(request))


async def upload(request: Request, site: Site) -> Response:
    """Every file is stored and queued by itself: one that is refused holds up no other."""
    form = await posted(request, files=MOST_FILES)
    reader = site.pages.reader(request)
    readers = _principals(field(form, "audience")) or None
    collection = clean(field(form, "collection")).strip()[:60]
    files = [f for f in form.getlist("files") if isinstance(f, UploadFile) and f.filename]
    if not collection or not files:
        raise HTTPException(400, "files")
    refused: list[Failure] = []
    known = 0
    limit = site.app.settings.ingest.max_megabytes
    for file in files:
        name = clean(PurePosixPath((file.filename or "").replace("\\", "/")).name) or "file"
        try:
            if (file.size or 0) > limit * 1_000_000:  # known before it is read into memory
                raise IngestError("too_large", f"{limit} MB")
            version = await site.app.admin.upload(
                name, await file.read(), collection=collection, by=reader.person.principal, audience=readers
            )
        except IngestError as error:
            refused.append(shelf_views.failure(reader.words, error.code, name, error.detail))
        else:
            known += version.state == "live"
    await site.app.store.changes.notify("documents", {"collection": collection})
    said = _uploaded(reader.t, len(files) - len(refused), known)
    return await _after_upload(request, site, form, refused, said)


async def _after_upload(
    request: Request, site: Site, form: FormData, refused: list[Failure], said: Said | None
) -> Response:
    if not by_htmx(request):
        return await _shelves_page(request, site, refused, said)
    extra = site.pages.fragment(request, "refused.html", refused=refused, swap=True)
    blocks = await _shelves(request, site)
    return site.pages.changes(request, blocks, seen(request, form), said=said, extra=extra)


def _uploaded(t: Callable[..., str], taken: int, known: int) -> Said | None:
    if taken == 0:
        return None
    if known == taken:
        return Said(t("documents.known", count=known))
    return Said(t("documents.taken", count=taken), "good")


async def _shelves_page(
    request: Request, site: Site, refused: Sequence[Failure] = (), said: Said | None = None
) -> Response:
    rows = await site.app.store.documents.collections()
    names = [row.name for row in rows]
    return site.pages.page(
        request,
        "documents.html",
        room="documents",
        notice=said,
        refused=refused,
        swap=False,
        limit=site.app.settings.ingest.max_megabytes,
        kinds=",".join(SUFFIXES),
        collections=names,
        collection=names[0] if len(names) == 1 else "general",
        blocks=site.pages.blocks(request, await _shelves(request, site)),
    )


async def _shelves(request: Request, site: Site) -> list[Block]:
    reader = site.pages.reader(request)
    found = shelf_views.shelves(await site.app.admin.list(), reader)
    paused = [shelf_views.pause(switch, reader) for switch in await pauses(site.app.store.switches)]
    return [
        site.pages.block(request, "pauses.html", "pauses", pauses=paused),
        *(site.pages.block(request, "shelf.html", f"shelf-{shelf.key}", shelf=shelf) for shelf in found),
    ]


async def pausing(request: Request, site: Site) -> Response:
    """Answering stops, everywhere or in one channel, or goes on: what /kb pause does."""
    form = await posted(request)
    reader = site.pages.reader(request)
    place, off = clean(field(form, "place")).strip(), field(form, "off") == "on"
    if not await pause(site.app.store, place, reader.person.principal, off=off):
        raise HTTPException(400, "channel")
    if not by_htmx(request):
        return RedirectResponse(f"{visitor(request).base}/console/documents", status_code=303)
    where = place or reader.words("chat.kb.pause_everywhere")
    said = Said(reader.t("pauses.off", where=where) if off else reader.t("pauses.on", where=where), "good")
    return site.pages.changes(request, await _shelves(request, site), seen(request, form), said=said)


# --- one document ----------------------------------------------------------------------------------------------


async def document(request: Request, site: Site) -> Response:
    row = await site.app.store.documents.show(request.path_params["document"])
    return site.pages.page(
        request,
        "document.html",
        room="documents",
        id=row.id,
        title=row.title,
        collection=row.collection,
        blocks=site.pages.blocks(request, [await _sheet(request, site)]),
    )


async def document_changes(request: Request, site: Site) -> Response:
    return site.pages.changes(request, [await _sheet(request, site)], seen(request))


async def audience(request: Request, site: Site) -> Response:
    """An empty field means: whoever may read its collection."""
    form = await posted(request)
    document_id = request.path_params["document"]
    await site.app.admin.set_audience(document_id, _principals(field(form, "audience")) or None)
    await site.app.store.changes.notify("documents", {"document": document_id})
    if not by_htmx(request):
        return RedirectResponse(f"{visitor(request).base}/console/documents/{document_id}", status_code=303)
    said = Said(site.pages.reader(request).t("document.audience_done"), "good")
    return site.pages.changes(request, [await _sheet(request, site)], seen(request, form), said=said)


async def remove(request: Request, site: Site) -> Response:
    await posted(request)
    await site.app.admin.remove(request.path_params["document"])
    address = f"{visitor(request).base}/console/documents"
    if by_htmx(request):
        return Response(headers={"HX-Redirect": address})
    return RedirectResponse(address, status_code=303)


async def _sheet(request: Request, site: Site) -> Block:
    store = site.app.store.documents
    row = await store.show(request.path_params["document"])
    chunks = await store.chunks(row.version_id) if row.version_id is not None else []
    view = shelf_views.sheet(row, await store.versions(row.id), chunks, site.pages.reader(request))
    return site.pages.block(request, "sheet.html", "sheet", sheet=view)


# --- search alone ----------------------------------------------------------------------------------------------


async def search(request: Request, site: Site) -> Response:
    """What retrieval alone finds, with each leg's ranks: the first question to a wrong answer."""
    query = clean(request.query_params.get("q", "")).strip()[:500]
    named = _principals(request.query_params.get("as", ""))
    readers = named or ("everyone", site.pages.reader(request).person.principal)
    result = await site.app.store.search.search(query, readers, top_k=TOP) if query else None
    return site.pages.page(
        request,
        "search.html",
        room="search",
        query=query,
        principals=", ".join(readers),
        result=shelf_views.found(result, site.pages.reader(request)) if result else None,
    )


def _principals(text: str) -> tuple[str, ...]:
    parts = [part.strip() for part in clean(text).replace("，", ",").split(",")]
    return tuple(dict.fromkeys(part for part in parts if part))
