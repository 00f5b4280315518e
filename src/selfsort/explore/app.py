"""The web application: addresses, the form of questions and answers, and nothing else.

Images are known by their numbers, clusters by theirs; no path ever comes from a request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import Annotated, Any, Literal

from fastapi import Body, FastAPI, HTTPException, Query, Request, Response
from fastapi import Path as InPath
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from selfsort.data.decode import quiet_pillow
from selfsort.errors import CannotWrite, SelfsortError
from selfsort.explore.desk import Desk, State
from selfsort.explore.editor import (
    Editor,
    HistoryEntry,
    ImageFacts,
    Listing,
    Order,
    Overview,
    PictureStack,
    Tree,
    View,
)
from selfsort.explore.exports import Kind, export, find_export
from selfsort.explore.learning import Learner, Lesson
from selfsort.explore.pictures import SHEET_COLUMNS, Encoded, Origin
from selfsort.runs.edits import MAX_NAME

MAX_ROWS = 2_000_000
"""Most images that one request may name."""
MAX_NAMES = 500
MAX_SHEET = 64
MAX_SIMILAR = 5000
MAX_PARTS = 20
MAX_HISTORY = 500


def _whole(value: object) -> object:
    """JSON knows one kind of number: 3.0 is the whole number 3."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Number = Annotated[int, Field(ge=0, lt=2**40), BeforeValidator(_whole)]
Rows = Annotated[list[Number], Field(min_length=1, max_length=MAX_ROWS)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class RenameRequest(_Strict):
    """Call a cluster something."""

    kind: Literal["rename"]
    cluster: Number
    name: Annotated[str, Field(max_length=10 * MAX_NAME)]


class MergeRequest(_Strict):
    """Put clusters together."""

    kind: Literal["merge"]
    clusters: Annotated[list[Number], Field(min_length=2, max_length=10_000)]
    into: Number | None = None


class SplitRequest(_Strict):
    """Cluster the images of one cluster again."""

    kind: Literal["split"]
    cluster: Number
    parts: Annotated[int, Field(ge=2, le=MAX_PARTS), BeforeValidator(_whole)]


class MoveRequest(_Strict):
    """Put images into a cluster; without one, into a new one."""

    kind: Literal["move"]
    rows: Rows
    to: Number | None = None
    name: Annotated[str, Field(max_length=10 * MAX_NAME)] = ""
    """Of the new cluster."""


class MarkRequest(_Strict):
    """Mark images wrong, or take the mark away."""

    kind: Literal["mark"]
    rows: Rows
    is_wrong: bool


EditRequest = Annotated[
    RenameRequest | MergeRequest | SplitRequest | MoveRequest | MarkRequest, Field(discriminator="kind")
]


class ExportRequest(_Strict):
    """What to write."""

    kind: Kind


class CutRequest(_Strict):
    """Make a run with another number of clusters."""

    clusters: Annotated[int, Field(ge=2, lt=2**31), BeforeValidator(_whole)]


# The answers that the editor gives are its own dataclasses; these are the others.


@dataclass(frozen=True)
class Run:
    """What the page has to know about the run."""

    name: str
    method: str
    state: State
    """Only a finished run can be edited."""
    version: int
    """Another number means that there is something new to show."""
    progress: str
    """What a run that still goes on is doing, in words."""
    n_images: int
    pictures: Origin
    note: str | None
    tile_width: int
    tile_height: int
    sheet_columns: int
    sheet_rows: int
    """Most tiles on one sheet."""


@dataclass(frozen=True)
class Edited:
    """What an edit has led to."""

    overview: Overview
    clusters: list[int]
    """Where the images of the edit are now."""


@dataclass(frozen=True)
class Exported:
    """Where an export is."""

    path: str
    file: str | None
    """Name under which it can be fetched, if it is one file."""


@dataclass(frozen=True)
class CutMade:
    """Where the run with another number of clusters is."""

    path: str
    carried: str
    """What became of names and corrections; empty if there were none."""


@dataclass(frozen=True)
class Problem:
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


def create_app(desk: Desk) -> FastAPI:
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
    _add_pictures(app, desk)
    _add_editing(app, desk)
    _add_exports(app, desk)
    _add_tree(app, desk)
    _add_learning(app, Learner(desk))
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
    def clusters(response: Response) -> Overview:
        response.headers["cache-control"] = "no-store"
        return desk.editor.overview()

    @app.get("/api/rows")
    def rows(
        response: Response,
        cluster: Annotated[int | None, Query(ge=0, lt=2**40)] = None,
        view: View = "all",
        order: Order = "typical",
    ) -> Listing:
        response.headers["cache-control"] = "no-store"
        return desk.editor.listing(view if cluster is None else cluster, order)

    @app.get("/api/similar")
    def similar(
        response: Response,
        row: Annotated[list[Number], Query(min_length=1, max_length=500)],
        count: Annotated[int, Query(ge=1, le=MAX_SIMILAR)] = 500,
    ) -> Listing:
        response.headers["cache-control"] = "no-store"
        for one in row:
            _require_row(desk.editor, one)
        return desk.editor.similar(row, count)

    @app.get("/api/stacks")
    def stacks(response: Response) -> list[PictureStack]:
        response.headers["cache-control"] = "no-store"
        return desk.editor.stacks()

    @app.get("/api/images/{row}")
    def image(response: Response, row: Annotated[int, InPath(ge=0, lt=2**40)]) -> ImageFacts:
        response.headers["cache-control"] = "no-store"
        _require_row(desk.editor, row)
        return desk.editor.image(row)

    @app.get("/api/names")
    def names(response: Response, row: Annotated[list[Number], Query(min_length=1, max_length=MAX_NAMES)]) -> list[str]:
        response.headers["cache-control"] = "private, max-age=3600"
        for one in row:
            _require_row(desk.editor, one)
        return [desk.editor.names[one] for one in row]

    @app.get("/api/history")
    def history(response: Response) -> list[HistoryEntry]:
        response.headers["cache-control"] = "no-store"
        return desk.editor.history(MAX_HISTORY)


def _add_pictures(app: FastAPI, desk: Desk) -> None:
    @app.get("/api/run")
    def run(response: Response) -> Run:
        response.headers["cache-control"] = "no-store"
        state, version = desk.state, desk.version
        if state == "starting":
            return Run("", "", state, version, _plain(desk.line), 0, "none", None, 1, 1, SHEET_COLUMNS, 1)
        editor, pictures = desk.editor, desk.pictures
        return Run(
            name=_plain(editor.folder.path.resolve().name),
            method=_plain(editor.folder.field("method", str)),
            state=state,
            version=version,
            progress=_plain(desk.line),
            n_images=len(editor),
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
            _require_row(desk.editor, one)
        is_whole = desk.pictures.is_whole  # before it is made: what was missing then is not to be remembered
        return _picture(desk.pictures.sheet(row), is_whole=is_whole)

    @app.get("/api/pictures/{row}", response_class=Response, responses=picture)
    def large(row: Annotated[int, InPath(ge=0, lt=2**40)], full: bool = False) -> Response:
        _require_row(desk.editor, row)
        found = desk.pictures.large(row, is_full=full)
        if found is None:
            raise HTTPException(404, "There is no picture of this image any more. Restore the source to see it.")
        return _picture(found)


def _add_editing(app: FastAPI, desk: Desk) -> None:
    @app.post("/api/edits")
    def edit(request: Annotated[EditRequest, Body()]) -> Edited:
        return Edited(clusters=_do(desk.editor, request), overview=desk.editor.overview())

    @app.post("/api/undo")
    def undo() -> Overview:
        if not desk.editor.undo():
            raise HTTPException(409, "There is nothing to undo.")
        return desk.editor.overview()

    @app.post("/api/redo")
    def redo() -> Overview:
        if not desk.editor.redo():
            raise HTTPException(409, "There is nothing to redo.")
        return desk.editor.overview()


def _do(editor: Editor, request: RenameRequest | MergeRequest | SplitRequest | MoveRequest | MarkRequest) -> list[int]:
    match request:
        case RenameRequest():
            editor.rename(request.cluster, request.name)
            return [request.cluster]
        case MergeRequest():
            return [editor.merge(request.clusters, request.into)]
        case SplitRequest():
            return editor.split(request.cluster, request.parts)
        case MoveRequest():
            return [editor.move(request.rows, request.to, request.name)]
        case MarkRequest():
            editor.mark(request.rows, request.is_wrong)
            return []


def _add_exports(app: FastAPI, desk: Desk) -> None:
    @app.post("/api/exports")
    def write(request: ExportRequest) -> Exported:
        path = export(desk.editor, request.kind)
        return Exported(path=_plain(str(path.resolve())), file=path.name if path.is_file() else None)

    @app.get("/api/exports/{name}", response_class=FileResponse)
    def fetch(name: Annotated[str, InPath(max_length=100)]) -> FileResponse:
        path = find_export(desk.editor, name)
        if path is None:
            raise HTTPException(404, "There is no such export. Write it again from the page.")
        headers = {"cache-control": "no-store"}
        return FileResponse(path, filename=path.name, media_type="application/octet-stream", headers=headers)


def _add_tree(app: FastAPI, desk: Desk) -> None:
    @app.get("/api/tree")
    def tree(response: Response) -> Tree:
        response.headers["cache-control"] = "no-store"
        return desk.editor.tree()

    @app.post("/api/cuts")
    def cut(request: CutRequest) -> CutMade:
        from selfsort.runs.cut import cut_run  # needs torch, as nothing else here does

        desk.editor.require_finished()
        made = cut_run(desk.editor.folder, request.clusters)
        return CutMade(path=_plain(str(made.folder.path)), carried=_plain(str(made.carried)))


def _add_learning(app: FastAPI, learner: Learner) -> None:
    @app.get("/api/lessons")
    def lesson(response: Response) -> Lesson:
        response.headers["cache-control"] = "no-store"
        return _plain_lesson(learner.lesson())

    @app.post("/api/lessons")
    def learn() -> Lesson:
        return _plain_lesson(learner.begin())


def _plain_lesson(lesson: Lesson) -> Lesson:
    return Lesson(lesson.state, _plain(lesson.line))


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


def _picture(encoded: Encoded, *, is_whole: bool = True) -> Response:
    keeping = "private, max-age=3600" if is_whole else "no-store"
    headers = {"cache-control": keeping, "x-missing": ",".join(map(str, encoded.missing))}
    return Response(encoded.content, media_type=encoded.media_type, headers=headers)


def _require_row(editor: Editor, row: int) -> None:
    if row >= len(editor):
        raise HTTPException(404, f"There is no image {row}. Expected a number below {len(editor)}.")


def _plain(text: str) -> str:
    """Names may hold bytes that are not UTF-8, which no JSON can carry."""
    return text.encode("utf-8", "backslashreplace").decode()
