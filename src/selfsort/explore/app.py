"""The web application: addresses, the form of questions and answers, and nothing else.

Images are known by their numbers, clusters by theirs; no path ever comes from a request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from importlib.resources import files
from typing import Annotated, Any, Literal

from fastapi import Body, FastAPI, HTTPException, Query, Request, Response
from fastapi import Path as InPath
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from selfsort.data.decode import quiet_pillow
from selfsort.errors import CannotWrite, SelfsortError
from selfsort.explore.editor import Desk, Listing, Order, View
from selfsort.explore.edits import MAX_NAME
from selfsort.explore.exports import Kind, export, find_export
from selfsort.explore.pictures import SHEET_COLUMNS, Encoded, Pictures

MAX_ROWS = 2_000_000
"""Most images that one request may name."""
MAX_SHEET = 64
MAX_SIMILAR = 5000
MAX_PARTS = 20


def _whole(value: object) -> object:
    """JSON knows one kind of number: 3.0 is the whole number 3."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Number = Annotated[int, Field(ge=0, lt=2**40), BeforeValidator(_whole)]
Rows = Annotated[list[Number], Field(min_length=1, max_length=MAX_ROWS)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class RenameWish(_Strict):
    """Call a cluster something."""

    kind: Literal["rename"]
    cluster: Number
    name: Annotated[str, Field(max_length=10 * MAX_NAME)]


class MergeWish(_Strict):
    """Put clusters together."""

    kind: Literal["merge"]
    clusters: Annotated[list[Number], Field(min_length=2, max_length=10_000)]
    into: Number | None = None


class SplitWish(_Strict):
    """Cluster the images of one cluster again."""

    kind: Literal["split"]
    cluster: Number
    parts: Annotated[int, Field(ge=2, le=MAX_PARTS), BeforeValidator(_whole)]


class MoveWish(_Strict):
    """Put images into a cluster; without one, into a new one."""

    kind: Literal["move"]
    rows: Rows
    to: Number | None = None


class MarkWish(_Strict):
    """Mark images wrong, or take the mark away."""

    kind: Literal["mark"]
    rows: Rows
    is_wrong: bool


Wish = Annotated[RenameWish | MergeWish | SplitWish | MoveWish | MarkWish, Field(discriminator="kind")]


class ExportWish(_Strict):
    """What to write."""

    kind: Kind


class ClusterOut(BaseModel):
    """A cluster in the list."""

    id: int
    name: str
    size: int
    n_wrong: int
    confidence: float
    cover: int


class OverviewOut(BaseModel):
    """The list of clusters, and what can be undone."""

    clusters: list[ClusterOut]
    n_wrong: int
    n_moved: int
    n_edits: int
    undo: str | None
    redo: str | None


class EditOut(BaseModel):
    """What an edit has led to."""

    overview: OverviewOut
    clusters: list[int]
    """Where the images of the edit are now."""


class RunOut(BaseModel):
    """What the page has to know about the run."""

    name: str
    method: str
    n_images: int
    pictures: Literal["source", "thumbnails", "none"]
    note: str | None
    tile_width: int
    tile_height: int
    sheet_columns: int
    sheet_rows: int
    """Most tiles on one sheet."""


class ListingOut(BaseModel):
    """Images in order; those with a mark are listed again."""

    rows: list[int]
    wrong: list[int]
    moved: list[int]
    clusters: list[int] | None
    """Where each image is, if the view shows images of several clusters."""
    scores: list[float] | None = None


class ImageOut(BaseModel):
    """One image."""

    row: int
    name: str
    cluster: int
    original_cluster: int
    confidence: float
    is_wrong: bool


class HistoryOut(BaseModel):
    """One edit in force."""

    number: int
    made_at: str
    text: str


class ExportOut(BaseModel):
    """Where an export is."""

    path: str
    file: str | None
    """Name under which it can be fetched, if it is one file."""


class Problem(BaseModel):
    """What was wrong, what was expected, what to do."""

    detail: str


_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": text}
    for status, text in (
        (400, "cannot be done"),
        (404, "not there"),
        (409, "does not fit the clusters as they are now"),
        (422, "not understood"),
        (507, "cannot be written"),
    )
}


def create_app(desk: Desk, pictures: Pictures) -> FastAPI:
    """Make the application for one run."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with quiet_pillow():
            yield

    app = FastAPI(
        title="selfsort explore", docs_url=None, redoc_url=None, lifespan=lifespan, responses=_PROBLEMS, version="1"
    )
    _explain_errors(app)
    _add_reading(app, desk)
    _add_pictures(app, desk, pictures)
    _add_editing(app, desk)
    _add_exports(app, desk)
    _add_page(app)
    return app


def _explain_errors(app: FastAPI) -> None:
    @app.exception_handler(SelfsortError)
    def refused(_: Request, error: SelfsortError) -> JSONResponse:
        return _problem(507 if isinstance(error, CannotWrite) else 409, str(error))

    @app.exception_handler(RequestValidationError)
    def not_understood(_: Request, error: RequestValidationError) -> JSONResponse:
        # What was sent is not repeated: it may hold what no answer can hold.
        first = error.errors()[0]
        where = ".".join(str(part) for part in first.get("loc", ())[1:])
        return _problem(422, f"The request was not understood ({where}: {first.get('msg', 'invalid')}).")


def _problem(status: int, text: str) -> JSONResponse:
    safe = text.encode("utf-8", "backslashreplace").decode()
    return JSONResponse({"detail": safe}, status_code=status, headers={"cache-control": "no-store"})


def _add_reading(app: FastAPI, desk: Desk) -> None:
    @app.get("/api/clusters")
    def clusters(response: Response) -> OverviewOut:
        response.headers["cache-control"] = "no-store"
        return _overview(desk)

    @app.get("/api/rows")
    def rows(
        response: Response,
        cluster: Annotated[int | None, Query(ge=0, lt=2**40)] = None,
        view: View = "all",
        order: Order = "typical",
    ) -> ListingOut:
        response.headers["cache-control"] = "no-store"
        listing = desk.listing(view if cluster is None else cluster, order)
        return _listing(listing, is_mixed=cluster is None)

    @app.get("/api/similar")
    def similar(
        response: Response,
        row: Annotated[list[Number], Query(min_length=1, max_length=500)],
        count: Annotated[int, Query(ge=1, le=MAX_SIMILAR)] = 500,
    ) -> ListingOut:
        response.headers["cache-control"] = "no-store"
        for one in row:
            _require_row(desk, one)
        listing, scores = desk.similar(row, count)
        found = _listing(listing, is_mixed=True)
        found.scores = [round(float(score), 4) for score in scores]
        return found

    @app.get("/api/images/{row}")
    def image(response: Response, row: Annotated[int, InPath(ge=0, lt=2**40)]) -> ImageOut:
        response.headers["cache-control"] = "no-store"
        _require_row(desk, row)
        cluster, original, is_wrong = desk.place_of(row)
        return ImageOut(
            row=row,
            name=desk.names[row],
            cluster=cluster,
            original_cluster=original,
            confidence=round(float(desk.table.confidence[row]), 4),
            is_wrong=is_wrong,
        )

    @app.get("/api/names")
    def names(response: Response) -> list[str]:
        response.headers["cache-control"] = "private, max-age=3600"
        return list(desk.names)

    @app.get("/api/history")
    def history(response: Response) -> list[HistoryOut]:
        response.headers["cache-control"] = "no-store"
        return [
            HistoryOut(number=entry.number, made_at=entry.made_at, text=text) for entry, text in desk.history()[:500]
        ]


def _add_pictures(app: FastAPI, desk: Desk, pictures: Pictures) -> None:
    @app.get("/api/run")
    def run(response: Response) -> RunOut:
        response.headers["cache-control"] = "no-store"
        return RunOut(
            name=_plain(desk.folder.path.resolve().name),
            method=_plain(desk.folder.field("method", str)),
            n_images=len(desk),
            pictures=pictures.origin,
            note=None if pictures.note is None else _plain(pictures.note),
            tile_width=pictures.tile.width,
            tile_height=pictures.tile.height,
            sheet_columns=SHEET_COLUMNS,
            # Files are decoded one by one: small sheets let the first ones be seen while the others are made.
            sheet_rows=MAX_SHEET if pictures.is_quick else 2 * SHEET_COLUMNS,
        )

    picture: dict[int | str, dict[str, Any]] = {
        200: {"content": {"image/png": {}, "image/jpeg": {}}, "description": "a picture"}
    }

    @app.get("/api/sheet", response_class=Response, responses=picture)
    def sheet(row: Annotated[list[Number], Query(min_length=1, max_length=MAX_SHEET)]) -> Response:
        for one in row:
            _require_row(desk, one)
        return _picture(pictures.sheet(row))

    @app.get("/api/pictures/{row}", response_class=Response, responses=picture)
    def large(row: Annotated[int, InPath(ge=0, lt=2**40)]) -> Response:
        _require_row(desk, row)
        found = pictures.large(row)
        if found is None:
            raise HTTPException(404, "There is no picture of this image any more. Restore the source to see it.")
        return _picture(found)


def _add_editing(app: FastAPI, desk: Desk) -> None:
    @app.post("/api/edits")
    def edit(wish: Annotated[Wish, Body()]) -> EditOut:
        return EditOut(clusters=_do(desk, wish), overview=_overview(desk))

    @app.post("/api/undo")
    def undo() -> OverviewOut:
        if not desk.undo():
            raise HTTPException(409, "There is nothing to undo.")
        return _overview(desk)

    @app.post("/api/redo")
    def redo() -> OverviewOut:
        if not desk.redo():
            raise HTTPException(409, "There is nothing to redo.")
        return _overview(desk)


def _do(desk: Desk, wish: RenameWish | MergeWish | SplitWish | MoveWish | MarkWish) -> list[int]:
    match wish:
        case RenameWish():
            desk.rename(wish.cluster, wish.name)
            return [wish.cluster]
        case MergeWish():
            return [desk.merge(wish.clusters, wish.into)]
        case SplitWish():
            return desk.split(wish.cluster, wish.parts)
        case MoveWish():
            return [desk.move(wish.rows, wish.to)]
        case MarkWish():
            desk.mark(wish.rows, wish.is_wrong)
            return []


def _add_exports(app: FastAPI, desk: Desk) -> None:
    @app.post("/api/exports")
    def write(wish: ExportWish) -> ExportOut:
        path = export(desk, wish.kind)
        return ExportOut(path=_plain(str(path.resolve())), file=path.name if path.is_file() else None)

    @app.get("/api/exports/{name}", response_class=FileResponse)
    def fetch(name: Annotated[str, InPath(max_length=100)]) -> FileResponse:
        path = find_export(desk, name)
        if path is None:
            raise HTTPException(404, "There is no such export. Write it again from the page.")
        headers = {"cache-control": "no-store"}
        return FileResponse(path, filename=path.name, media_type="application/octet-stream", headers=headers)


_PAGE = {
    "index.html": "text/html",
    "explorer.js": "text/javascript",
    "explorer.css": "text/css",
    "icon.svg": "image/svg+xml",
}


def _add_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    def page() -> Response:
        return _static("index.html")

    @app.get("/{name}", include_in_schema=False)
    def static(name: str) -> Response:
        if name not in _PAGE:
            raise HTTPException(404, "Nothing here.")
        return _static(name)


def _static(name: str) -> Response:
    content = files("selfsort.explore").joinpath("static", name).read_bytes()
    media_type = f"{_PAGE[name]}; charset=utf-8"
    return Response(content, media_type=media_type, headers={"cache-control": "no-cache"})


def _overview(desk: Desk) -> OverviewOut:
    return OverviewOut.model_validate(asdict(desk.overview()))


def _listing(listing: Listing, *, is_mixed: bool) -> ListingOut:
    # Built without checking: a hundred thousand numbers that we made ourselves.
    return ListingOut.model_construct(
        rows=listing.rows.tolist(),
        wrong=listing.rows[listing.is_wrong].tolist(),
        moved=listing.rows[listing.is_moved].tolist(),
        clusters=listing.clusters.tolist() if is_mixed else None,
        scores=None,
    )


def _picture(encoded: Encoded) -> Response:
    headers = {"cache-control": "private, max-age=3600", "x-missing": ",".join(map(str, encoded.missing))}
    return Response(encoded.content, media_type=encoded.media_type, headers=headers)


def _require_row(desk: Desk, row: int) -> None:
    if row >= len(desk):
        raise HTTPException(404, f"There is no image {row}. Expected a number below {len(desk)}.")


def _plain(text: str) -> str:
    """Names may hold bytes that are not UTF-8, which no JSON can carry."""
    return text.encode("utf-8", "backslashreplace").decode()
