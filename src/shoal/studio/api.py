"""The JSON API: every action of the pages, with an OpenAPI schema."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, Response, UploadFile
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, create_model
from starlette.concurrency import run_in_threadpool

from shoal import __version__
from shoal.anonymizers import describe_methods
from shoal.data.schema import KINDS, ROLES
from shoal.errors import ShoalError
from shoal.parameters import Whole
from shoal.partition.recoding import describe_recodings
from shoal.privacy.base import Control
from shoal.studio import exports, hierarchies
from shoal.studio.runs import plain
from shoal.studio.settings import SUPPRESSION, WEIGHT, K, offered_levels
from shoal.studio.workspace import MOST_CENSUS, Workspace

Name = Annotated[str, Field(min_length=1, max_length=200)]


class Strict(BaseModel):
    """Model that refuses unknown fields."""

    model_config = ConfigDict(extra="forbid")


class Census(Strict):
    """Size and seed of a synthetic census."""

    rows: Annotated[int, Field(ge=100, le=MOST_CENSUS)] = 30_000
    seed: Annotated[int, Field(ge=0, le=2**31)] = 0


class FilePath(Strict):
    """Path of a file in the folder."""

    path: Annotated[str, Field(min_length=1, max_length=4000)]


class AttributeChange(Strict):
    """New role or kind of a column."""

    role: Literal["identifier", "quasi", "sensitive", "target", "other"] | None = None
    kind: Literal["numeric", "ordinal", "nominal"] | None = None


class Build(Strict):
    """Way to build a hierarchy."""

    how: Literal["intervals", "prefix", "dates", "order", "frequencies"]
    option: bool | int | list[float] | list[str] = True


class Move(Strict):
    """Node to move, and its new parent."""

    value: Name
    node: Name


def _level_type(control: Control) -> Any:
    levels = control.levels
    if isinstance(levels, Whole):
        return Annotated[int, Field(ge=levels.least, le=levels.most)] | None
    return Annotated[float, Field(ge=levels.least, gt=levels.above, le=levels.most, lt=levels.below)] | None


_LevelsChange: Any = create_model(
    "_LevelsChange",
    __base__=Strict,
    **{key: (_level_type(control), None) for key, control in offered_levels().items()},  # type: ignore[call-overload]
)


class SettingsChange(_LevelsChange):  # type: ignore[misc]
    """Settings to change."""

    method: str | None = None
    recoding: str | None = None
    k: Annotated[int, Field(ge=K.least, le=K.most)] | None = None
    suppression: Annotated[float, Field(ge=SUPPRESSION.least, le=SUPPRESSION.most)] | None = None
    model: str | None = None
    weights: dict[str, Annotated[float, Field(ge=WEIGHT.least, le=WEIGHT.most)]] | None = None


class DecisionBody(Strict):
    """Answer to a question."""

    choice: Literal["first", "second", "skip"]


class VariantName(Strict):
    """Name of a variant."""

    name: Annotated[str, Field(min_length=1, max_length=80)]


class AuditRequest(Strict):
    """Options of an audit."""

    references: Annotated[int, Field(ge=0, le=64, multiple_of=2)] = 4


class ErrorDetail(BaseModel):
    """Error in one sentence."""

    detail: str


def workspace_of(request: Request) -> Workspace:
    """Return the workspace that a request names."""
    name = request.scope.get("shoal.workspace")
    if name is None:
        raise HTTPException(400, "No workspace is named: send the header Shoal-Desk, 8 to 64 letters, digits, - or _.")
    return request.app.state.studio.workspace(name)  # type: ignore[no-any-return]


FromRequest = Annotated[Workspace, Depends(workspace_of)]
router = APIRouter()


def make_api(studio: Any) -> FastAPI:
    """Return the application under /api."""
    refused: dict[int | str, dict[str, Any]] = {
        code: {"model": ErrorDetail} for code in (400, 401, 403, 404, 409, 413, 421)
    }
    api = FastAPI(
        title="Shoal studio",
        version=__version__,
        description="The JSON API of the studio. Send the token as a bearer, and name your workspace in Shoal-Desk.",
        docs_url=None,
        redoc_url=None,
        responses=refused,
    )
    api.state.studio = studio
    api.add_exception_handler(ShoalError, respond_to_error)
    api.include_router(router)
    return api


async def respond_to_error(request: Request, error: Exception) -> JSONResponse:
    """Return an error in one sentence."""
    return JSONResponse({"detail": " ".join(str(error).split())}, 409)


@router.get("/desk", tags=["data"])
def show_workspace(workspace: FromRequest) -> dict[str, Any]:
    """Return the open table and the release settings."""
    return {"source": workspace.source, "settings": workspace.settings.to_dict(), "variants": len(workspace.variants)}


@router.get("/choices", tags=["data"])
def choices() -> dict[str, Any]:
    """Return the possible roles, kinds, methods, recodings and ways to build hierarchies."""
    found = {"roles": ROLES, "kinds": KINDS, "methods": describe_methods(), "hierarchies": hierarchies.BUILDERS}
    return found | {"recodings": describe_recodings()}


@router.get("/files", tags=["data"])
def list_files(workspace: FromRequest) -> list[str]:
    """Return the tables in the folder of the studio."""
    return workspace.files()


@router.post("/census", tags=["data"])
def open_census(workspace: FromRequest, asked: Census) -> dict[str, Any] | None:
    """Open a synthetic census."""
    workspace.open_census(asked.rows, asked.seed)
    return workspace.source


@router.post("/open", tags=["data"])
def open_path(workspace: FromRequest, asked: FilePath) -> dict[str, Any] | None:
    """Open a file in the folder of the studio."""
    if "\0" in asked.path:
        raise ShoalError("The path contains a null character: remove it.")
    workspace.open_path(asked.path)
    return workspace.source


@router.post("/upload", tags=["data"])
async def upload(workspace: FromRequest, file: UploadFile) -> dict[str, Any] | None:
    """Open an uploaded table, CSV or Parquet."""
    name = Path(file.filename or "table.csv").name
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("upload" + Path(name).suffix.lower())
        with path.open("wb") as written:
            while part := await file.read(1 << 20):
                written.write(part)
        await run_in_threadpool(workspace.open_file, path, name)
    return workspace.source


@router.get("/columns", tags=["data"])
def show_columns(workspace: FromRequest) -> list[dict[str, Any]]:
    """Return all columns: kind, role and its reason, hierarchy, distribution."""
    return [plain(column._asdict()) for column in workspace.columns()]


@router.patch("/columns/{name}", tags=["data"])
def change_column(workspace: FromRequest, name: str, asked: AttributeChange) -> dict[str, Any]:
    """Change the role or kind of a column."""
    changes = {key: value for key, value in asked.model_dump().items() if value is not None}
    workspace.set_attribute(name, **changes)
    return next(plain(one._asdict()) for one in workspace.columns() if one.name == name)


@router.get("/risk", tags=["data"])
def raw_risk(workspace: FromRequest) -> dict[str, Any]:
    """Return the risk of re-identification in the raw table."""
    return plain(workspace.raw_risk()._asdict())  # type: ignore[no-any-return]


@router.get("/columns/{name}/hierarchy", tags=["hierarchies"])
def show_hierarchy(workspace: FromRequest, name: str) -> dict[str, Any] | None:
    """Return the hierarchy of a column as a tree; null for a column without one."""
    found = workspace.hierarchy(name)
    return None if found is None else hierarchies.as_tree(found)


@router.post("/columns/{name}/hierarchy", tags=["hierarchies"])
def build_hierarchy(workspace: FromRequest, name: str, asked: Build) -> dict[str, Any] | None:
    """Build the hierarchy of a column from its values."""
    workspace.build_hierarchy(name, asked.how, asked.option)
    return show_hierarchy(workspace, name)


@router.put("/columns/{name}/hierarchy", tags=["hierarchies"])
async def load_hierarchy(workspace: FromRequest, name: str, file: UploadFile) -> dict[str, Any] | None:
    """Load a hierarchy from a JSON file (SaNGreeA) or a CSV file (ARX)."""
    content = await file.read()
    found = await run_in_threadpool(hierarchies.read, content, Path(file.filename or "").suffix.lower())
    await run_in_threadpool(workspace.set_hierarchy, name, found)
    return show_hierarchy(workspace, name)


@router.post("/columns/{name}/hierarchy/move", tags=["hierarchies"])
def move_value(workspace: FromRequest, name: str, asked: Move) -> dict[str, Any] | None:
    """Move a value or a group below another node."""
    workspace.change_hierarchy(name, lambda found: hierarchies.move(found, asked.value, asked.node))
    return show_hierarchy(workspace, name)


@router.delete("/columns/{name}/hierarchy", tags=["hierarchies"])
def drop_hierarchy(workspace: FromRequest, name: str) -> None:
    """Remove the hierarchy of a column."""
    workspace.set_hierarchy(name, None)


@router.patch("/settings", tags=["shape"])
def change_settings(workspace: FromRequest, asked: SettingsChange) -> dict[str, Any]:
    """Change the release settings; null removes a level, the recoding or the model."""
    given = asked.model_dump(exclude_unset=True)
    for name in ("method", "k", "suppression", "weights"):
        if name in given and given[name] is None:
            del given[name]
    return workspace.change(**given).to_dict()


@router.post("/model", tags=["shape"])
async def upload_model(workspace: FromRequest, file: UploadFile) -> dict[str, str]:
    """Train the model of an uploaded .skops file; pickles require a studio that was started with --trust."""
    name = Path(file.filename or "model").name
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("model" + Path(name).suffix.lower())
        path.write_bytes(await file.read())
        return {"model": await run_in_threadpool(workspace.use_model, path, name)}


@router.post("/shape", tags=["shape"])
def start_shape(workspace: FromRequest) -> dict[str, int]:
    """Start a run with the current settings; an earlier run is stopped."""
    return {"ticket": workspace.start_run()}


@router.get("/shape", tags=["shape"])
def show_shape(workspace: FromRequest, wait: bool = False) -> dict[str, Any]:
    """Return the progress and the figures of the newest run."""
    found = workspace.progress()
    if wait and found.running:
        found = workspace.runs.wait(found.ticket, 120)
    return {
        "ticket": found.ticket, "running": found.running, "step": found.step, "error": found.error,
        "of": found.result_ticket, "figures": plain(found.result),
    }  # fmt: skip


@router.get("/duel", tags=["duel"])
def show_question(workspace: FromRequest) -> dict[str, Any]:
    """Return the open question: a row, two groups that it could join, and the loss in each."""
    return plain({"question": workspace.ask()._asdict(), "weights": weights_view(workspace)})  # type: ignore[no-any-return]


@router.post("/duel", tags=["duel"])
def decide(workspace: FromRequest, asked: DecisionBody) -> dict[str, Any]:
    """Choose one of the two groups, or skip the question, and update the weights."""
    workspace.answer(asked.choice)
    return plain(weights_view(workspace))  # type: ignore[no-any-return]


@router.post("/duel/undo", tags=["duel"])
def undo(workspace: FromRequest) -> dict[str, Any]:
    """Undo the last decision."""
    workspace.undo()
    return plain(weights_view(workspace))  # type: ignore[no-any-return]


@router.get("/variants", tags=["compare"])
def show_variants(workspace: FromRequest) -> list[dict[str, Any]]:
    """Return the saved variants."""
    return plain(workspace.variants)  # type: ignore[no-any-return]


@router.post("/variants", tags=["compare"])
def keep_variant(workspace: FromRequest, asked: VariantName) -> dict[str, Any]:
    """Save the current settings and their figures under a name."""
    return plain(workspace.keep_variant(asked.name))  # type: ignore[no-any-return]


@router.delete("/variants/{name}", tags=["compare"])
def drop_variant(workspace: FromRequest, name: str) -> None:
    """Delete a variant."""
    workspace.drop_variant(name)


@router.post("/audit", tags=["audit"])
def start_audit(workspace: FromRequest, asked: AuditRequest) -> dict[str, Any]:
    """Attack a model of the raw rows and one of the release."""
    workspace.start_audit(asked.references)
    return plain(workspace.audit())  # type: ignore[no-any-return]


@router.get("/audit", tags=["audit"])
def show_audit(workspace: FromRequest) -> dict[str, Any]:
    """Return the progress and the results of the audit."""
    return plain(workspace.audit())  # type: ignore[no-any-return]


@router.delete("/audit", tags=["audit"])
def stop_audit(workspace: FromRequest) -> None:
    """Stop the audit."""
    workspace.stop_audit()


@router.get("/export/{what}", tags=["export"], response_class=Response)
def export(workspace: FromRequest, what: str, shown: bool = False) -> Response:
    """Return an exported file; /api/exports lists the names. With ``shown``, browsers open a page, not save it."""
    content, media = exports.write(workspace, what)
    how = "inline" if shown and media == "text/html" else "attachment"
    # A page that is shown may contain any values of the table: the sandbox isolates it from the studio.
    headers = {"content-disposition": f'{how}; filename="{what}"', "content-security-policy": "sandbox allow-popups"}
    return Response(content, media_type=media, headers=headers)


@router.get("/exports", tags=["export"])
def list_exports() -> list[str]:
    """Return the names of the files that can be exported."""
    return list(exports.FILES)


def weights_view(workspace: Workspace) -> dict[str, Any]:
    """Return the weights, their uncertainty, and the number of decisions."""
    session = workspace.weight_session()
    return {"weights": dict(session.weights), "uncertainty": dict(session.uncertainty), "answers": len(session.log)}
