"""The JSON twin of the pages: everything that can be done there can be asked for here, with an OpenAPI schema."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, Response, UploadFile
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, create_model
from starlette.concurrency import run_in_threadpool

from shoal import __version__
from shoal.data.schema import KINDS, ROLES
from shoal.errors import ShoalError
from shoal.privacy.base import Control
from shoal.studio import exports, trees
from shoal.studio.desk import MOST_CENSUS, Workspace
from shoal.studio.settings import SUPPRESSION, WEIGHT, K, methods, offered_levels
from shoal.studio.shaping import plain

Name = Annotated[str, Field(min_length=1, max_length=200)]


class Strict(BaseModel):
    """Refuses what it does not know."""

    model_config = ConfigDict(extra="forbid")


class Census(Strict):
    """A synthetic census of so many people."""

    rows: Annotated[int, Field(ge=100, le=MOST_CENSUS)] = 30_000
    seed: Annotated[int, Field(ge=0, le=2**31)] = 0


class Place(Strict):
    """A file of the folder."""

    path: Annotated[str, Field(min_length=1, max_length=4000)]


class AttributeChange(Strict):
    """What a column is to be."""

    role: Literal["identifier", "quasi", "sensitive", "target", "other"] | None = None
    kind: Literal["numeric", "ordinal", "nominal"] | None = None


class Build(Strict):
    """How to build a hierarchy."""

    how: Literal["intervals", "prefix", "dates", "order", "frequencies"]
    option: bool | int | list[float] | list[str] = True


class Move(Strict):
    """What goes below which node."""

    value: Name
    node: Name


def _level_type(control: Control) -> Any:
    bounds: dict[str, Any] = {"gt" if control.above else "ge": control.low, "le": control.high}
    return Annotated[int if control.is_whole else float, Field(**bounds)] | None


_LevelsChange: Any = create_model(
    "_LevelsChange",
    __base__=Strict,
    **{key: (_level_type(control), None) for key, control in offered_levels().items()},  # type: ignore[call-overload]
)


class SettingsChange(_LevelsChange):  # type: ignore[misc]
    """Settings to change."""

    method: str | None = None
    k: Annotated[int, Field(ge=K.least, le=K.most)] | None = None
    suppression: Annotated[float, Field(ge=SUPPRESSION.least, le=SUPPRESSION.most)] | None = None
    model: str | None = None
    weights: dict[str, Annotated[float, Field(ge=WEIGHT.least, le=WEIGHT.most)]] | None = None


class DecisionBody(Strict):
    """What was decided."""

    choice: Literal["first", "second", "skip"]


class VariantName(Strict):
    """What a variant is called."""

    name: Annotated[str, Field(min_length=1, max_length=80)]


class AuditRequest(Strict):
    """How to attack."""

    references: Annotated[int, Field(ge=0, le=64, multiple_of=2)] = 4


class Sentence(BaseModel):
    """What was wrong, in one sentence."""

    detail: str


def desk_of(request: Request) -> Workspace:
    """The desk that a request names."""
    name = request.scope.get("shoal.desk")
    if name is None:
        raise HTTPException(400, "Name a desk by the header Shoal-Desk: 8 to 64 letters, digits, - or _.")
    return request.app.state.studio.desk(name)  # type: ignore[no-any-return]


AtDesk = Annotated[Workspace, Depends(desk_of)]
router = APIRouter()


def make_api(studio: Any) -> FastAPI:
    """The application under /api."""
    refused: dict[int | str, dict[str, Any]] = {
        code: {"model": Sentence} for code in (400, 401, 403, 404, 409, 413, 421)
    }
    api = FastAPI(
        title="Shoal studio",
        version=__version__,
        description="The JSON twin of the studio's pages. Send the token as a bearer, and name a desk of your own.",
        docs_url=None,
        redoc_url=None,
        responses=refused,
    )
    api.state.studio = studio
    api.add_exception_handler(ShoalError, tell)
    api.include_router(router)
    return api


async def tell(request: Request, error: Exception) -> JSONResponse:
    """What is wrong, in one sentence."""
    return JSONResponse({"detail": " ".join(str(error).split())}, 409)


@router.get("/desk", tags=["data"])
def show_desk(desk: AtDesk) -> dict[str, Any]:
    """What is open, and how it is set."""
    return {"source": desk.source, "settings": desk.settings.to_dict(), "variants": len(desk.variants)}


@router.get("/choices", tags=["data"])
def choices() -> dict[str, Any]:
    """What can be chosen: roles, kinds, methods and ways to build hierarchies."""
    return {"roles": ROLES, "kinds": KINDS, "methods": methods(), "hierarchies": trees.BUILDERS}


@router.get("/files", tags=["data"])
def list_files(desk: AtDesk) -> list[str]:
    """Tables of the folder that the studio was started for."""
    return desk.files()


@router.post("/census", tags=["data"])
def open_census(desk: AtDesk, asked: Census) -> dict[str, Any] | None:
    """Open a synthetic census."""
    desk.open_census(asked.rows, asked.seed)
    return desk.source


@router.post("/open", tags=["data"])
def open_path(desk: AtDesk, asked: Place) -> dict[str, Any] | None:
    """Open a file of the folder."""
    if "\0" in asked.path:
        raise ShoalError("The path has a character that no path has: correct it.")
    desk.open_path(asked.path)
    return desk.source


@router.post("/upload", tags=["data"])
async def upload(desk: AtDesk, file: UploadFile) -> dict[str, Any] | None:
    """Open a table that is sent along, CSV or Parquet."""
    name = Path(file.filename or "table.csv").name
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("upload" + Path(name).suffix.lower())
        with path.open("wb") as written:
            while part := await file.read(1 << 20):
                written.write(part)
        await run_in_threadpool(desk.open_file, path, name)
    return desk.source


@router.get("/columns", tags=["data"])
def show_columns(desk: AtDesk) -> list[dict[str, Any]]:
    """Every column: kind, role, why, hierarchy, distribution."""
    return [plain(column._asdict()) for column in desk.columns()]


@router.patch("/columns/{name}", tags=["data"])
def change_column(desk: AtDesk, name: str, asked: AttributeChange) -> dict[str, Any]:
    """Give a column another role or kind."""
    changes = {key: value for key, value in asked.model_dump().items() if value is not None}
    desk.set_attribute(name, **changes)
    return next(plain(one._asdict()) for one in desk.columns() if one.name == name)


@router.get("/risk", tags=["data"])
def raw_risk(desk: AtDesk) -> dict[str, Any]:
    """How exposed people are before anything is done."""
    return plain(desk.raw_risk()._asdict())  # type: ignore[no-any-return]


@router.get("/columns/{name}/hierarchy", tags=["hierarchies"])
def show_hierarchy(desk: AtDesk, name: str) -> dict[str, Any] | None:
    """The hierarchy of a column as a tree; null if it has none."""
    found = desk.hierarchy(name)
    return None if found is None else trees.as_tree(found)


@router.post("/columns/{name}/hierarchy", tags=["hierarchies"])
def build_hierarchy(desk: AtDesk, name: str, asked: Build) -> dict[str, Any] | None:
    """Build a hierarchy from the values of a column."""
    desk.build_hierarchy(name, asked.how, asked.option)
    return show_hierarchy(desk, name)


@router.put("/columns/{name}/hierarchy", tags=["hierarchies"])
async def load_hierarchy(desk: AtDesk, name: str, file: UploadFile) -> dict[str, Any] | None:
    """Load a hierarchy: a JSON file (SaNGreeA) or a CSV file (ARX)."""
    content = await file.read()
    found = await run_in_threadpool(trees.read, content, Path(file.filename or "").suffix.lower())
    await run_in_threadpool(desk.set_hierarchy, name, found)
    return show_hierarchy(desk, name)


@router.post("/columns/{name}/hierarchy/move", tags=["hierarchies"])
def move_value(desk: AtDesk, name: str, asked: Move) -> dict[str, Any] | None:
    """Put a value or a group below another node."""
    desk.change_hierarchy(name, lambda found: trees.move(found, asked.value, asked.node))
    return show_hierarchy(desk, name)


@router.delete("/columns/{name}/hierarchy", tags=["hierarchies"])
def drop_hierarchy(desk: AtDesk, name: str) -> None:
    """Leave a column without a hierarchy."""
    desk.set_hierarchy(name, None)


@router.patch("/settings", tags=["shape"])
def change_settings(desk: AtDesk, asked: SettingsChange) -> dict[str, Any]:
    """Change how the table is to be released; null takes a level or the model away."""
    given = asked.model_dump(exclude_unset=True)
    for name in ("method", "k", "suppression", "weights"):
        if name in given and given[name] is None:
            del given[name]
    return desk.change(**given).to_dict()


@router.post("/model", tags=["shape"])
async def bring_model(desk: AtDesk, file: UploadFile) -> dict[str, str]:
    """Train a model like the one in this file, .skops; pickles only if the studio was started with --trust."""
    name = Path(file.filename or "model").name
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("model" + Path(name).suffix.lower())
        path.write_bytes(await file.read())
        return {"model": await run_in_threadpool(desk.bring_model, path, name)}


@router.post("/shape", tags=["shape"])
def start_shape(desk: AtDesk) -> dict[str, int]:
    """Release the table as it is set; what was asked for before is stopped."""
    return {"ticket": desk.start()}


@router.get("/shape", tags=["shape"])
def show_shape(desk: AtDesk, wait: bool = False) -> dict[str, Any]:
    """How far the newest run is, and its figures."""
    found = desk.shaped()
    if wait and found.running:
        found = desk.shaping.wait(found.ticket, 120)
    return {
        "ticket": found.ticket, "running": found.running, "step": found.step, "error": found.error,
        "of": found.of, "figures": plain(found.result),
    }  # fmt: skip


@router.get("/duel", tags=["duel"])
def show_question(desk: AtDesk) -> dict[str, Any]:
    """The question that is open: a row, two groups that it could join, and what each would lose."""
    return plain({"question": question_view(desk.ask()), "weights": weights_view(desk)})  # type: ignore[no-any-return]


@router.post("/duel", tags=["duel"])
def decide(desk: AtDesk, asked: DecisionBody) -> dict[str, Any]:
    """Decide between the two groups, or skip; weights follow at once."""
    desk.answer(asked.choice)
    return plain(weights_view(desk))  # type: ignore[no-any-return]


@router.post("/duel/undo", tags=["duel"])
def undo(desk: AtDesk) -> dict[str, Any]:
    """Take the last decision back."""
    desk.undo()
    return plain(weights_view(desk))  # type: ignore[no-any-return]


@router.get("/variants", tags=["compare"])
def show_variants(desk: AtDesk) -> list[dict[str, Any]]:
    """Variants that were kept."""
    return plain(desk.variants)  # type: ignore[no-any-return]


@router.post("/variants", tags=["compare"])
def keep_variant(desk: AtDesk, asked: VariantName) -> dict[str, Any]:
    """Keep the present settings and their figures under a name."""
    return plain(desk.keep_variant(asked.name))  # type: ignore[no-any-return]


@router.delete("/variants/{name}", tags=["compare"])
def drop_variant(desk: AtDesk, name: str) -> None:
    """Forget a variant."""
    desk.drop_variant(name)


@router.post("/audit", tags=["audit"])
def start_audit(desk: AtDesk, asked: AuditRequest) -> dict[str, Any]:
    """Attack models of the raw rows and of the release."""
    desk.start_audit(asked.references)
    return plain(desk.audit())  # type: ignore[no-any-return]


@router.get("/audit", tags=["audit"])
def show_audit(desk: AtDesk) -> dict[str, Any]:
    """How far the audit is, and what it found."""
    return plain(desk.audit())  # type: ignore[no-any-return]


@router.delete("/audit", tags=["audit"])
def stop_audit(desk: AtDesk) -> None:
    """Stop the audit."""
    desk.stop_audit()


@router.get("/export/{what}", tags=["export"], response_class=Response)
def export(desk: AtDesk, what: str, shown: bool = False) -> Response:
    """A file to take along: see /api/exports for their names. With ``shown`` a page is opened instead of saved."""
    content, media = exports.write(desk, what)
    how = "inline" if shown and media == "text/html" else "attachment"
    # Whatever values of the table it holds, a page that is shown can do nothing, and is none of the studio's.
    headers = {"content-disposition": f'{how}; filename="{what}"', "content-security-policy": "sandbox allow-popups"}
    return Response(content, media_type=media, headers=headers)


@router.get("/exports", tags=["export"])
def list_exports() -> list[str]:
    """Names of the files that can be exported."""
    return list(exports.FILES)


def question_view(question: Any) -> dict[str, Any]:
    """A question as plain values."""
    return plain(question._asdict() if hasattr(question, "_asdict") else question)  # type: ignore[no-any-return]


def weights_view(desk: Workspace) -> dict[str, Any]:
    """Weights, how sure they are, and how many decisions there are."""
    duel = desk.duel()
    return {"weights": dict(duel.weights), "uncertainty": dict(duel.uncertainty), "answers": len(duel.log)}
