"""Tests of the studio without a browser: workspaces, worker processes, exports, access guard and JSON API."""

import io
import json
import os
import shlex
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import polars as pl
import pytest

pytest.importorskip("nicegui")
import httpx
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings

from shoal import Hierarchy, Schema, make_model
from shoal.cli import run
from shoal.datasets import make_census
from shoal.errors import HierarchyError, ShoalError
from shoal.models import save_model
from shoal.studio import exports, hierarchies
from shoal.studio.api import make_api
from shoal.studio.app import Studio
from shoal.studio.guard import AccessGuard
from shoal.studio.processes import BackgroundTask, LatestTask, Progress, WorkerPool
from shoal.studio.store import Store
from shoal.studio.workspace import Workspace

TOKEN, PORT = "a-token-that-nobody-guesses", 8123
HOST = f"127.0.0.1:{PORT}"
BEARER = {"Authorization": f"Bearer {TOKEN}", "Shoal-Desk": "workspace-of-mine"}


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "kept")
    yield store
    store.close()


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def workspace(store, root):
    workspace = Workspace("workspace-of-mine", store, root)
    workspace.open_census(600)
    yield workspace
    workspace.close()


def run_with(workspace, **changes):
    workspace.change(**changes)
    return workspace.runs.wait(workspace.start_run(), 60)


# Workspaces


def test_a_table_is_opened_looked_at_and_released(workspace):
    assert workspace.source == {"name": "census", "rows": 600, "columns": workspace.frame.width}
    columns = {column.name: column for column in workspace.columns()}
    assert columns["age"].kind == "numeric"
    assert sum(columns["age"].counts) == 600
    assert workspace.raw_risk().unique > 0.1
    found = run_with(workspace, k=20, model="tree")
    assert (found.running, found.error) == (False, "")
    figures = found.result
    assert figures["k"] >= 20
    assert sum(one["rows"] for one in figures["sizes"]) == 600
    assert set(figures["loss"]["by_attribute"]) == {one.name for one in workspace.schema.quasi}
    assert 0 < figures["utility"]["after"]["value"] <= 1
    assert len(figures["sample"]["before"]) == len(figures["sample"]["after"]) == 12
    json.dumps(figures)
    assert workspace.release().k == figures["k"]


@pytest.mark.parametrize("method", ["mondrian", "sangreea", "hilbert", "rplus", "flash", "accuracy-guided"])
def test_every_method_can_be_chosen(workspace, method):
    found = run_with(workspace, method=method, k=5, model=None)
    assert found.error == ""
    assert found.result["k"] >= 5
    assert found.result["utility"] is None


def test_a_recoding_can_be_chosen_and_goes_where_the_method_has_none(workspace):
    found = run_with(workspace, method="flash", recoding="level", k=5, model=None)
    assert found.error == ""
    assert workspace.change(method="mondrian").recoding is None
    with pytest.raises(ShoalError, match="recoding must be 'interval', .* or None, got 'level'"):
        workspace.change(recoding="level")
    ages = {row[0] for row in run_with(workspace, recoding="mean").result["sample"]["after"]}
    assert workspace.release().parameters["recoding"] == "mean"
    assert all(float(age) > 0 for age in ages)
    assert workspace.settings.recoding_for_models == "mean"
    assert workspace.change(recoding="set").recoding_for_models == "representative"
    assert "--recoding set" in exports.command(workspace)
    assert "recoding='set'" in exports.snippet(workspace)


def test_weights_matter_and_what_cannot_be_reached_is_told(workspace):
    quasi = [one.name for one in workspace.schema.quasi]
    plain = run_with(workspace, method="sangreea", k=10, model=None).result["loss"]["by_attribute"]
    heavy = run_with(workspace, weights={quasi[0]: 50.0}).result["loss"]["by_attribute"]
    assert heavy[quasi[0]] < plain[quasi[0]]
    assert workspace.settings.weights == {quasi[0]: 50.0}
    found = run_with(workspace, l=500)
    assert "500" in found.error
    assert found.result is None
    with pytest.raises(ShoalError, match="Only quasi-identifiers have weights, 'income' does not"):
        workspace.change(weights={"income": 2.0})
    for wrong in ({"k": 1}, {"method": "magic"}, {"t": 0.0}, {"suppression": 2}, {"model": "magic"}, {"colour": 1}):
        with pytest.raises(ShoalError):
            workspace.change(**wrong)
    with pytest.raises(ShoalError):
        workspace.change(weights={quasi[0]: -1.0})


def test_nothing_is_lost_by_a_restart(workspace, store, root):
    name = workspace.schema.quasi[0].name
    workspace.set_attribute("sex", role="other")
    run_with(workspace, k=15, weights={name: 3.0}, model=None)
    workspace.keep_variant("first try")
    for _ in range(3):
        workspace.ask()
        workspace.answer("first")
    question = workspace.ask()
    again = Workspace("workspace-of-mine", store, root)
    assert again.source == workspace.source
    assert again.settings == workspace.settings
    assert again.schema == workspace.schema
    assert again.schema.reasons == workspace.schema.reasons
    assert again.frame.equals(workspace.frame)
    assert [one["name"] for one in again.variants] == ["first try"]
    assert len(again.weight_session().log) == 3
    assert str(again.ask()) == str(question)
    again.undo()
    assert len(again.weight_session().log) == 2


def test_workspaces_do_not_see_each_other(workspace, store, root):
    other = Workspace("workspace-of-others", store, root)
    assert other.source is None
    other.open_census(200, seed=3)
    other.change(k=50)
    assert workspace.settings.k == 10
    assert workspace.frame.height == 600
    with pytest.raises(ShoalError, match="No table is open"):
        Workspace("workspace-of-nobody", store, root).start_run()


def test_files_of_the_folder_are_opened_and_no_others(workspace, root, tmp_path):
    make_census(300).frame.write_csv(root / "people.csv")
    (tmp_path / "secret.csv").write_text("a,b\n1,2\n")
    (root / "link.csv").symlink_to(tmp_path / "secret.csv")
    (root / "broken.parquet").write_bytes(b"PAR1 nothing")
    (root / "empty.csv").write_text("")
    assert set(workspace.files()) == {"people.csv", "link.csv", "broken.parquet", "empty.csv"}
    workspace.open_path("people.csv")
    assert workspace.source["rows"] == 300
    for wrong in ("../secret.csv", str(tmp_path / "secret.csv"), "link.csv", "/etc/passwd", "none.csv"):
        with pytest.raises(ShoalError) as caught:
            workspace.open_path(wrong)
        assert "\n" not in str(caught.value)
    for wrong in ("broken.parquet", "empty.csv"):
        with pytest.raises(ShoalError):
            workspace.open_path(wrong)
    assert workspace.source["name"] == "people.csv"


def test_columns_change_and_what_depends_on_them_is_forgotten(workspace):
    workspace.set_attribute("age", kind="ordinal")
    assert workspace.schema["age"].kind == "ordinal"
    with pytest.raises(ShoalError, match="'sex' holds texts"):
        workspace.set_attribute("sex", kind="numeric")
    with pytest.raises(ShoalError, match="unknown role"):
        workspace.set_attribute("sex", role="secret")
    for one in workspace.schema.quasi:
        workspace.set_attribute(one.name, role="other")
    with pytest.raises(ShoalError, match="No column is a quasi-identifier"):
        workspace.start_run()
    with pytest.raises(ShoalError, match="No column is a quasi-identifier"):
        workspace.raw_risk()


def test_variants_are_kept_used_and_dropped(workspace):
    run_with(workspace, k=5, model=None)
    workspace.keep_variant("small")
    run_with(workspace, k=50)
    workspace.keep_variant("large")
    assert [one["name"] for one in workspace.variants] == ["small", "large"]
    assert workspace.variants[0]["loss"]["ncp"] < workspace.variants[1]["loss"]["ncp"]
    workspace.use_variant("small")
    assert workspace.settings.k == 5
    workspace.drop_variant("small")
    for act in (workspace.drop_variant, workspace.use_variant):
        with pytest.raises(ShoalError, match="no variant 'small'"):
            act("small")
    with pytest.raises(ShoalError, match="needs a name"):
        workspace.keep_variant("  ")
    assert [one["outdated"] for one in workspace.variants] == [False]
    workspace.set_attribute("sex", role="other")
    assert [one["outdated"] for one in workspace.variants] == [True]
    assert workspace.progress().result is None  # figures of other columns are none of these


def test_the_lattice_has_the_chosen_node(workspace):
    for one in workspace.schema.quasi[3:]:
        workspace.set_attribute(one.name, role="other")
    workspace.change(method="flash", k=5)
    picture = workspace.lattice()
    assert picture is not None


# Hierarchies


WORK = Hierarchy.from_dict({"gov": ["federal", "local"], "private": None, "self": ["inc", "not-inc"]}, name="work")


def test_values_move_between_groups():
    moved = hierarchies.move(WORK, "local", "self")
    assert moved.leaves(moved.node("self")) == ("inc", "not-inc", "local") or set(moved.leaves(moved.node("self"))) == {
        "inc",
        "not-inc",
        "local",
    }
    assert hierarchies.move(moved, "federal", "self").n_nodes == WORK.n_nodes - 1  # an empty group is none
    grown = hierarchies.add_group(WORK, "other", "private")
    assert grown.label_of(grown.common_ancestor(["private"])) == "private"
    assert "other" in grown.labels
    assert "official" in hierarchies.rename(WORK, "gov", "official").labels
    for wrong in (("none", "self"), ("local", "private"), ("local", "none"), ("*", "gov")):
        with pytest.raises(HierarchyError):
            hierarchies.move(WORK, *wrong)
    with pytest.raises(HierarchyError, match="is below"):
        hierarchies.move(hierarchies.move(WORK, "self", "gov"), "gov", "self")
    tree = hierarchies.as_tree(WORK)
    assert tree["label"] == "*"
    assert {child["label"] for child in tree["children"]} == {"gov", "private", "self"}


def test_hierarchies_are_built_loaded_and_must_cover(workspace, tmp_path):
    workspace.build_hierarchy("age", "intervals", [10, 20])
    assert workspace.schema["age"].kind == "nominal"
    assert workspace.hierarchy("age").height >= 2
    workspace.set_hierarchy("age", None)
    assert workspace.hierarchy("age") is None
    with pytest.raises(ShoalError, match="has no hierarchy"):
        workspace.change_hierarchy("age", lambda found: found)
    Hierarchy.from_dict({"*": ["Male", "Female"]}).to_csv(tmp_path / "sex.csv")
    workspace.set_hierarchy("sex", hierarchies.read((tmp_path / "sex.csv").read_bytes(), ".csv"))
    with pytest.raises(ShoalError, match="sex"):
        workspace.set_hierarchy("sex", Hierarchy.from_dict({"*": ["Male"]}))
    for content, suffix in ((b"\xff\xfe", ".csv"), (b"{", ".json"), (b"[]", ".json"), (b"a", ".txt")):
        with pytest.raises(ShoalError):
            hierarchies.read(content, suffix)
    with pytest.raises(ShoalError):
        workspace.build_hierarchy("sex", "intervals")
    with pytest.raises(ShoalError):
        workspace.build_hierarchy("sex", "magic")


# Work


class Tasks:
    """Tasks of the test processes, by name."""

    def __init__(self):
        self.times = 0

    def __call__(self, step, show, keep, what, path=None):
        self.times += 1
        getattr(self, what)(step, show, keep, path)

    def count(self, step, show, keep, path):
        show(self.times)
        keep("counted")

    def steps(self, step, show, keep, path):
        for i in range(2000):
            step(f"step {i}")
            time.sleep(0.005)
        path.touch()

    def sleep(self, step, show, keep, path):
        step("sleeping")
        time.sleep(120)

    def fail(self, step, show, keep, path):
        show("part")
        raise ShoalError("It cannot be done.")

    def break_down(self, step, show, keep, path):
        raise ZeroDivisionError("by zero")

    def vanish(self, step, show, keep, path):
        os._exit(1)


def until(holds, seconds=30):
    for _ in range(int(seconds / 0.01)):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("It took too long.")


@pytest.fixture(scope="module")
def pool():
    return WorkerPool(Tasks)


def test_the_newest_work_wins_and_older_one_stops_at_its_next_step(pool, tmp_path):
    latest = LatestTask(pool)
    latest.submit("steps", "steps", tmp_path / "ended")
    until(lambda: latest.progress.step.startswith("step"))
    ticket = latest.submit("count", "count")
    found = latest.wait(ticket, 30)
    assert (found.result, found.result_ticket, found.error, found.payload) == (
        2,
        ticket,
        "",
        "counted",
    )  # by the same process
    assert not (tmp_path / "ended").exists()
    found = latest.wait(latest.submit("fail", "fail"), 30)
    assert (found.result, found.error) == ("part", "It cannot be done.")
    found = latest.wait(latest.submit("break", "break_down"), 30)
    assert (found.result, found.error) == (None, "An unexpected error occurred (ZeroDivisionError: by zero).")
    latest.reset()
    assert latest.progress.result is None


def test_work_that_does_not_come_to_a_step_is_ended(pool, monkeypatch):
    latest = LatestTask(pool)
    latest.wait(latest.submit("sleep", "count"), 30)  # what is compiled for it is there
    latest.submit("sleep", "sleep")
    until(lambda: latest.progress.step == "sleeping")
    begun = time.monotonic()
    found = latest.wait(latest.submit("count", "count"), 60)
    assert found.result == 1  # by another process
    assert time.monotonic() - begun < 60
    monkeypatch.setattr("shoal.studio.processes.PATIENCE", 0.0)
    latest.submit("never done", "sleep")
    until(lambda: latest.progress.step == "sleeping")
    ticket = latest.submit("count", "count")
    time.sleep(0.5)
    assert latest.progress == Progress(
        ticket, True, "Waiting", 1, found.result_ticket, payload="counted"
    )  # it may be compiling
    latest.reset()


def test_a_process_that_has_ended_is_told_and_another_one_goes_on(pool):
    latest = LatestTask(pool)
    assert "stopped from outside" in latest.wait(latest.submit("vanish", "vanish"), 30).error
    assert latest.wait(latest.submit("count", "count"), 30).result == 1


def report_and_wait(seconds, step):
    step("waiting")
    time.sleep(seconds)


def fail_at_once(step):
    raise ShoalError("There is nothing to do.")


def test_background_tasks_report_steps_and_can_be_stopped():
    task = BackgroundTask(report_and_wait, 60)
    deadline = time.monotonic() + 30
    while task.step != "waiting" and time.monotonic() < deadline:
        task.poll()
        time.sleep(0.05)
    assert task.step == "waiting"
    task.stop()
    assert task.ended
    failed = BackgroundTask(fail_at_once)
    while not failed.ended and time.monotonic() < deadline:
        failed.poll()
        time.sleep(0.05)
    assert failed.error == "There is nothing to do."


def test_an_audit_attacks_both_models(workspace):
    workspace.change(k=25, model="tree")
    workspace.start_audit(references=0)
    deadline = time.monotonic() + 120
    while (found := workspace.audit())["status"] == "running" and time.monotonic() < deadline:
        time.sleep(0.2)
    assert found["status"] == "done", found
    assert found["current"]
    before, after = found["summary"].values()
    assert before["verdicts"][0]["found"]
    assert not after["verdicts"][0]["found"]
    assert "Opinion 28/2024" in exports.write(workspace, "audit.html")[0].decode()
    workspace.change(k=30)
    assert not workspace.audit()["current"]
    with pytest.raises(ShoalError, match="even number"):
        workspace.start_audit(3)


# Exports


def test_exports_repeat_the_release_without_the_mouse(workspace, tmp_path, monkeypatch):
    name = workspace.schema.quasi[0].name
    run_with(workspace, method="sangreea", k=12, l=2, weights={name: 4.0}, model=None)
    monkeypatch.chdir(tmp_path)
    Path("census.csv").write_bytes(exports.write(workspace, "table.csv")[0])
    with zipfile.ZipFile(io.BytesIO(exports.write(workspace, "schema.zip")[0])) as archive:
        archive.extractall()
    released = exports.write(workspace, "released.csv")[0].decode()
    assert Schema.from_toml("schema.toml")[name].weight == 4.0
    words = shlex.split(exports.command(workspace))
    assert words[0] == "shoal"
    assert run(words[1:]) == 0
    by_command = pl.read_csv("released.csv", infer_schema=False)
    assert by_command.equals(pl.read_csv(io.StringIO(released), infer_schema=False))
    Path("released.csv").unlink()
    exec(compile(exports.snippet(workspace), "release.py", "exec"), {})
    assert pl.read_csv("released.csv", infer_schema=False).equals(by_command)
    assert b"12-anonymous" in exports.write(workspace, "report.html")[0]
    assert pl.read_parquet(io.BytesIO(exports.write(workspace, "released.parquet")[0])).height == 600
    assert f'"{name}" = 4.0' in exports.write(workspace, "weights.toml")[0].decode()
    with pytest.raises(ShoalError, match="no evidence yet"):
        exports.write(workspace, "audit.html")
    with pytest.raises(ShoalError, match="There is no 'magic'"):
        exports.write(workspace, "magic")


# Uploaded models


def test_models_from_files_are_trained_and_pickles_refused(workspace, store, root, tmp_path):
    frame = workspace.frame
    model = make_model("logistic", workspace.schema).fit(frame, frame["income"].to_numpy())
    save_model(model, tmp_path / "mine.skops")
    save_model(model, tmp_path / "mine.joblib")
    assert workspace.use_model(tmp_path / "mine.skops", "../my model.skops") == "my_model.skops"
    assert run_with(workspace, k=10).result["utility"]["model"] == "my_model.skops"
    with pytest.raises(ShoalError, match="would run whatever code its maker put there"):
        workspace.use_model(tmp_path / "mine.joblib", "mine.joblib")
    trusting = Workspace("workspace-of-trust", store, root, trust=True)
    trusting.open_census(300)
    assert trusting.use_model(tmp_path / "mine.joblib", "mine.joblib") == "mine.joblib"
    assert "There is no model 'none.skops'" in run_with(workspace, model="none.skops").result["utility"]["error"]
    with pytest.raises(ShoalError, match="is not a model file"):
        workspace.use_model(tmp_path / "mine.skops", "mine.csv")


# Access guard and JSON API


@pytest.fixture
def client(store, root):
    studio = Studio(store, root)
    app = FastAPI(openapi_url=None)
    app.mount("/api", make_api(studio))
    guarded = AccessGuard(app, TOKEN, PORT, 1_000_000)
    transport = httpx.ASGITransport(guarded)
    yield lambda **headers: httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}", headers=headers)
    studio.close()


def ask(client, method, path, headers=BEARER, **options):
    import asyncio

    async def send():
        async with client(**headers) as session:
            return await session.request(method, path, **options)

    return asyncio.run(send())


def test_the_guard_lets_only_the_token_in_and_no_other_page(client):
    assert ask(client, "GET", "/api/desk").status_code == 200
    assert ask(client, "GET", "/api/desk", {}).status_code == 401
    assert ask(client, "GET", "/api/desk", {"Authorization": "Bearer wrong"}).status_code == 401
    for origin in ("http://evil.example", "null", "https://127.0.0.1:8123", "http://127.0.0.1:9999"):
        assert ask(client, "POST", "/api/census", BEARER | {"Origin": origin}, json={}).status_code == 403
    assert ask(client, "GET", "/api/desk", BEARER | {"Origin": f"http://{HOST}"}).status_code == 200
    for host in ("evil.example", "evil.example:8123", "127.0.0.1", "127.0.0.1:9"):
        assert ask(client, "GET", "/api/desk", BEARER | {"Host": host}).status_code == 421
    assert ask(client, "POST", "/api/census", BEARER | {"Sec-Fetch-Site": "cross-site"}, json={}).status_code == 403
    refused = ask(client, "POST", "/api/upload", files={"file": ("a.csv", b"a\n" * 600_000)})
    assert refused.status_code == 413
    assert "larger" in refused.json()["detail"]

    async def parts():
        for _ in range(8):
            yield b"x" * 200_000

    assert ask(client, "POST", "/api/open", content=parts()).status_code == 413


def test_the_printed_address_sets_cookies_and_hides_the_token(client):
    found = ask(client, "GET", f"/api/desk?token={TOKEN}", {})
    assert found.status_code == 303
    assert found.headers["location"] == "/api/desk"
    cookies = found.headers.get_list("set-cookie")
    assert len(cookies) == 2
    assert all("HttpOnly" in one and "SameSite=Strict" in one for one in cookies)
    kept = {"Cookie": "; ".join(one.split(";")[0] for one in cookies)}
    assert ask(client, "GET", "/api/desk", kept).json()["source"] is None
    answer = ask(client, "GET", "/api/desk", kept)
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    named = ask(client, "GET", f"/api/desk?token={TOKEN}&desk=workspace-of-mine", {})
    assert "shoal_desk=workspace-of-mine" in " ".join(named.headers.get_list("set-cookie"))
    assert ask(client, "GET", "/api/desk", {"Authorization": f"Bearer {TOKEN}"}).status_code == 400


def test_everything_can_be_done_by_the_json_api(client, root):
    table = make_census(300).frame
    content = table.write_csv().encode()
    opened = ask(client, "POST", "/api/upload", files={"file": ("people.csv", content)})
    assert opened.json() == {"name": "people.csv", "rows": 300, "columns": table.width}
    columns = ask(client, "GET", "/api/columns").json()
    assert {one["name"] for one in columns} == set(table.columns)
    changed = ask(client, "PATCH", "/api/columns/sex", json={"role": "quasi"}).json()
    assert changed["role"] == "quasi"
    assert ask(client, "GET", "/api/risk").json()["unique"] >= 0
    built = ask(client, "POST", "/api/columns/postal-code/hierarchy", json={"how": "prefix"})
    assert built.status_code == 200, built.text
    assert ask(client, "DELETE", "/api/columns/postal-code/hierarchy").status_code == 200
    assert ask(client, "PATCH", "/api/settings", json={"k": 8, "model": None}).json()["k"] == 8
    assert ask(client, "POST", "/api/shape").json()["ticket"] > 0
    shown = ask(client, "GET", "/api/shape?wait=true").json()
    assert shown["figures"]["k"] >= 8
    question = ask(client, "GET", "/api/duel").json()
    assert question["question"]
    decided = ask(client, "POST", "/api/duel", json={"choice": "second"}).json()
    assert decided["answers"] == 1
    assert ask(client, "POST", "/api/duel/undo").json()["answers"] == 0
    assert ask(client, "POST", "/api/duel/undo").status_code == 409
    assert ask(client, "POST", "/api/variants", json={"name": "one"}).json()["name"] == "one"
    assert len(ask(client, "GET", "/api/variants").json()) == 1
    assert ask(client, "DELETE", "/api/variants/one").status_code == 200
    assert ask(client, "GET", "/api/audit").json()["status"] == "none"
    for what in ask(client, "GET", "/api/exports").json():
        found = ask(client, "GET", f"/api/export/{what}")
        assert found.status_code == (409 if "audit" in what else 200), what
    other = BEARER | {"Shoal-Desk": "workspace-of-others"}
    assert ask(client, "GET", "/api/desk", other).json()["source"] is None
    wrong = ask(client, "PATCH", "/api/columns/none", json={"role": "quasi"})
    assert wrong.status_code == 409
    assert "no attribute 'none'" in wrong.json()["detail"]
    assert ask(client, "PATCH", "/api/settings", json={"k": 1}).status_code == 422


@pytest.mark.slow
def test_no_request_that_the_schema_allows_breaks_the_api(client):
    """Requests that schemathesis makes from the OpenAPI schema; none is answered by a code of 500 or above."""
    schemathesis = pytest.importorskip("schemathesis")
    document = ask(client, "GET", "/api/openapi.json").json()
    document["servers"] = [{"url": "/api"}]
    ask(client, "POST", "/api/census", json={"rows": 200})
    schema = schemathesis.openapi.from_dict(document)
    tried = set()
    for operation in schema.get_all_operations():
        found = operation.ok()
        if (found.path, found.method.lower()) != ("/audit", "post"):  # it starts a process each time
            probe(client, found)
            tried.add((found.method, found.path))
    assert len(tried) > 20


def probe(client, operation):
    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), database=None, derandomize=True)
    @given(case=operation.as_strategy())
    def answered(case):
        sent = case.as_transport_kwargs(base_url=f"http://{HOST}")
        headers = {
            name: value for name, value in dict(sent.get("headers") or {}).items()
            if value.isascii() and name.lower() not in ("authorization", "shoal-desk", "host", "cookie")
        }  # fmt: skip
        known = {name: sent[name] for name in ("params", "json", "data", "content", "files") if name in sent}
        answer = ask(client, sent["method"], sent["url"], BEARER | headers, **known)
        assert answer.status_code < 500, answer.text

    answered()


# A process that is killed


def start(folder, data, *options):
    command = [sys.executable, "-m", "shoal", "studio", "--no-browser", "--folder", str(folder), "--data", str(data)]
    process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    address = process.stdout.readline().strip().removeprefix("The studio is at ")
    assert address.startswith("http://127.0.0.1:"), process.stderr.read()
    return process, address


def end(process):
    process.kill()
    process.wait()
    process.stdout.close()
    process.stderr.close()


def wait_for(address):
    for _ in range(300):
        try:
            return httpx.get(address, follow_redirects=False, timeout=60)
        except httpx.ConnectError:
            time.sleep(0.1)
    raise AssertionError("The studio does not answer.")


@pytest.mark.skipif(not hasattr(signal, "SIGPIPE"), reason="there are no such signals")
def test_a_browser_that_leaves_does_not_end_the_studio(tmp_path):
    process, address = start(tmp_path, tmp_path / "kept")
    try:
        wait_for(address)
        process.send_signal(signal.SIGPIPE)  # as the system does when somebody is written to who is gone
        time.sleep(0.5)
        assert process.poll() is None
        wait_for(address)
    finally:
        end(process)


@pytest.mark.slow
def test_a_killed_studio_loses_nothing(tmp_path):
    process, address = start(tmp_path, tmp_path / "kept")
    try:
        wait_for(address)
        root, token = address.split("/?token=")
        headers = {"Authorization": f"Bearer {token}", "Shoal-Desk": "workspace-of-mine"}
        with httpx.Client(base_url=root, headers=headers, timeout=60) as session:
            session.post("/api/census", json={"rows": 400})
            session.patch("/api/settings", json={"k": 17, "model": "tree"})
            session.post("/api/duel", json={"choice": "first"})
            session.post("/api/shape")  # it is at work when it is killed
    finally:
        end(process)
    process, address = start(tmp_path, tmp_path / "kept", "--resume")
    try:
        assert "&desk=workspace-of-mine" in address
        wait_for(address)
        root, token = address.split("&desk=")[0].split("/?token=")
        headers = {"Authorization": f"Bearer {token}", "Shoal-Desk": "workspace-of-mine"}
        with httpx.Client(base_url=root, headers=headers, timeout=60) as session:
            found = session.get("/api/desk").json()
            assert found["source"]["rows"] == 400
            assert found["settings"]["k"] == 17
            assert session.get("/api/duel").json()["weights"]["answers"] == 1
            assert session.post("/api/shape").status_code == 200
            assert session.get("/api/shape?wait=true").json()["figures"]["k"] >= 17
    finally:
        end(process)


def test_bad_commands_get_one_sentence(tmp_path, capsys):
    for options, sentence in (
        (["--folder", str(tmp_path / "none")], "is not a folder"),
        (["--port", "70000"], "--port must be a whole number from 0 to 65,535, got 70000"),
        (["--most-upload", "0"], "--most-upload must be"),
        ([str(tmp_path / "none.csv"), "--no-browser", "--data", str(tmp_path / "kept")], "There is no file"),
    ):
        assert run(["studio", *options]) == 2
        error = capsys.readouterr().err
        assert sentence in error
        assert error.count("\n") == 1
