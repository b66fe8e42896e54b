"""The studio's pages with a simulated user: what each page says and does, without a browser and through the guard."""

import asyncio
import re
import threading
import time
from html import escape

import pytest

pytest.importorskip("nicegui", reason="NiceGUI is not installed: the pages are not walked through")
import httpx
from nicegui import Client, ElementFilter, core, ui
from nicegui.functions.download import download
from nicegui.functions.navigate import Navigate
from nicegui.functions.notify import notify
from nicegui.storage import Storage
from nicegui.testing import User, UserInteraction
from nicegui.testing.general import nicegui_reset_globals

from shoal.datasets import make_census
from shoal.studio.app import Studio, make_app
from shoal.studio.pages.layout import percent
from shoal.studio.store import Store

pytestmark = pytest.mark.anyio
TOKEN, PORT = "a-token-that-nobody-guesses", 8123
PEOPLE = 400
LONG = 120.0
"""Seconds after which something that was waited for will not come, also on a machine that is busy."""


class Person(User):
    """Finds things by the names that tests of the browser use, and waits for what pages are going to say."""

    async def enter(self, workspace):
        """Come in by the address that the studio prints."""
        await self.open(f"/?token={TOKEN}&desk={workspace.name}")

    def all(self, testid):
        with self:
            visible = ElementFilter(local_scope=False, only_visible=True)
            return [one for one in visible if one.props.get("data-testid") == testid]

    def at(self, testid):
        found = self.all(testid)
        assert len(found) == 1, f"{len(found)} elements are called {testid!r}"
        return found[0]

    def text(self, testid):
        return said(self.at(testid))

    @property
    def page(self):
        return said(self.current_layout)

    def on(self, testid, target=None):
        return UserInteraction(self, {self.at(testid)}, target)

    def press(self, testid):
        button = self.at(testid)
        assert getattr(button, "enabled", True), f"{testid!r} cannot be pressed"
        self.on(testid).click()

    def choose(self, testid, option):
        """Open a list, and click on one of its options."""
        self.on(testid).click()
        assert self.at(testid).is_showing_popup
        self.on(testid, option).click()
        assert not self.at(testid).is_showing_popup, f"{testid!r} does not offer {option!r}"

    def put(self, testid, value):
        """Move a slider or write into a field, as the browser tells it."""
        told = "update:modelValue"
        assert told in {listener.type for listener in self.at(testid)._event_listeners.values()}
        self.on(testid).trigger(told, value)

    async def until(self, condition):
        """Wait for a condition; what is not there yet may come."""
        deadline = time.monotonic() + LONG
        while True:
            try:
                if condition():
                    return
            except AssertionError:
                if time.monotonic() > deadline:
                    raise
            assert time.monotonic() < deadline, f"It did not come to pass; {self.notify.messages=}, {self.page[:1000]=}"
            await asyncio.sleep(0.02)

    async def reads(self, testid, *parts):
        await self.until(lambda: all(part in self.text(testid) for part in parts))

    async def told(self, *parts):
        """Wait for a message that holds these parts."""
        await self.until(lambda: any(all(part in one for part in parts) for one in self.notify.messages))

    async def sees_figures(self, workspace, **settings):
        """Wait until the page Shape shows what the run with these settings found."""
        await self.until(lambda: self._shows(workspace, settings))
        return workspace.progress().result

    def _shows(self, workspace, settings):
        found = workspace.progress().result
        if workspace.progress().running or found is None or found["settings"] != found["settings"] | settings:
            return False
        lost = {name: percent(share) for name, share in found["loss"]["by_attribute"].items()}
        return (
            "Up to date" in self.text("run-status")
            and self.text("figures-groups") == f"{found['groups']:,}"
            and f"{found['settings']['k']:,} requested" in self.text("figures-k-words")
            and {name: self.text(f"loss-{name}") for name in lost} == lost
        )


def said(element):
    """What an element and all within it say; not what stands under the pointer only."""
    shown = [one for one in (element, *element.descendants()) if one.visible and not isinstance(one, ui.tooltip)]
    parts = (getattr(one, "text", None) or getattr(one, "content", None) for one in shown)
    return " ".join(part for part in parts if isinstance(part, str))


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    """One studio for all tests, each of which has workspaces of its own."""
    folder = tmp_path_factory.mktemp("studio")
    (folder / "work").mkdir()
    studio = Studio(Store(folder / "kept"), folder / "work")
    yield studio
    studio.close()


@pytest.fixture
def workspace(studio, request):
    """A workspace without a table."""
    return studio.workspace("workspace-" + re.sub(r"\W", "-", request.node.name)[:50])


@pytest.fixture
def census(workspace):
    """A workspace with a small census."""
    workspace.open_census(PEOPLE)
    workspace.change(model=None)
    return workspace


@pytest.fixture
async def people(studio, tmp_path, monkeypatch, caplog):
    """Makes people who talk to the studio through its guard.

    Not by the plugin of NiceGUI, which starts an application of its own and would have all tests load it.
    """
    monkeypatch.setattr(Storage, "path", tmp_path)
    made = []

    def make():
        client = httpx.AsyncClient(transport=httpx.ASGITransport(guarded), base_url=f"http://127.0.0.1:{PORT}")
        made.append(Person(client))
        return made[-1]

    with nicegui_reset_globals():
        guarded = make_app(studio, TOKEN, PORT)
        try:
            async with core.app.router.lifespan_context(core.app):
                yield make
                for one in made:
                    await one.http_client.aclose()
        finally:
            ui.navigate, ui.notify, ui.download = Navigate(), notify, download
            # Else the modules of all pages, and the package itself, would be imported anew by the tests that follow.
            Client.page_routes.clear()
    assert [record.getMessage() for record in caplog.get_records("call") if record.levelname == "ERROR"] == []
    assert [one for person in made for one in person.notify.messages if "unexpected error" in one] == []


@pytest.fixture
def ada(people):
    return people()


# Data


async def test_nobody_enters_without_the_token(ada):
    assert (await ada.http_client.get("/")).status_code == 401
    entered = await ada.http_client.get(f"/?token={TOKEN}&desk=workspace-of-ada", follow_redirects=True)
    assert (entered.status_code, entered.url.path, entered.url.query) == (200, "/", b"")
    assert ada.http_client.cookies["shoal_desk"] == "workspace-of-ada"


async def test_every_page_says_what_to_do_first(ada, workspace):
    await ada.enter(workspace)
    assert ada.text("source") == "no table is open"
    assert "Open a CSV or Parquet file in which each row is a person, or the demo" in ada.text("empty-state")
    assert all(door in ada.page for door in ("Your file", "File in the folder", "Demo"))
    for path, own in (("/shape", "run-status"), ("/compare", "no-variants"), ("/audit", "start-audit"),
                      ("/export", "command")):  # fmt: skip
        await ada.open(path)
        assert "No table is open." in ada.page
        assert ada.text("open-first") == "Open a file or the demo"
        assert ada.at("open-first").props["href"] == "/"
        assert ada.all(own) == []
        assert navigation(ada) == path


def navigation(person):
    """The page that the header marks as the present one."""
    with person:
        buttons = [one for one in ElementFilter(kind=ui.button) if "shoal-nav" in one.classes]
    assert [one.text for one in buttons] == ["Data", "Shape", "Compare", "Audit", "Export"]
    (here,) = (one.props["href"] for one in buttons if one.props.get("aria-current") == "page")
    return here


async def test_the_demo_is_opened(ada, workspace):
    await ada.enter(workspace)
    ada.put("census-rows", "50")
    ada.press("open-census")
    await ada.told("rows=50: choose a census of 100 to 1,000,000 people.")
    assert workspace.source is None
    ada.put("census-rows", str(PEOPLE))
    ada.press("open-census")
    await ada.reads("source", "census: 400 rows")
    assert workspace.source["rows"] == PEOPLE
    await ada.reads("raw-risk", "Highest risk (prosecutor)", percent(workspace.raw_risk().unique))
    assert "400 rows, 15 columns" in ada.page
    for column in workspace.columns():
        assert ada.at(f"role-{column.name}").value == column.role
        assert ada.at(f"kind-{column.name}").value == column.kind
    assert "Identifies a person directly" in ada.page
    ada.press("distribution-sex")
    await ada.until(lambda: "Distribution of sex" in ada.page)
    assert "2 values." in ada.page


async def test_files_are_opened_and_bad_ones_told(ada, workspace, studio):
    await ada.enter(workspace)
    assert "no CSV or Parquet file" in ada.text("no-files")
    upload = ui.upload.SmallFileUpload
    await ada.at("upload").handle_uploads([upload("broken.csv", "text/csv", b"")])
    await ada.told("'broken.csv'")
    assert workspace.source is None
    table = make_census(150).frame
    await ada.at("upload").handle_uploads([upload("people.csv", "text/csv", table.write_csv().encode())])
    await ada.reads("source", "people.csv: 150 rows")
    path = studio.root / "others.csv"
    table.head(120).write_csv(path)
    try:
        await ada.open(ada.at("open-another").props["href"])
        assert "It replaces 'people.csv'" in ada.page
        assert ada.at("file").options == ["others.csv"]
        ada.press("open-file")
        await ada.reads("source", "others.csv: 120 rows")
    finally:
        path.unlink()


async def test_who_leaves_a_page_early_breaks_nothing(ada, workspace, monkeypatch):
    left, ended, opening = threading.Event(), threading.Event(), workspace.open_census

    def open_slowly(rows):
        assert left.wait(LONG)
        opening(rows)
        ended.set()

    monkeypatch.setattr(workspace, "open_census", open_slowly)
    await ada.enter(workspace)
    ada.put("census-rows", "200")
    ada.press("open-census")
    await ada.until(lambda: [one.message for one in ongoing(ada)] == ["Generating the demo"])
    ada.client.delete()
    left.set()
    await ada.until(ended.is_set)
    await ada.open("/")
    assert ada.text("source") == "census: 200 rows"
    await ada.reads("raw-risk", "Highest risk")
    assert len(ada.back_history) == 2  # nobody was led anywhere who had left


def ongoing(person):
    """What is being done, as it is shown meanwhile."""
    with person:
        return list(ElementFilter(kind=ui.notification))


async def test_roles_and_kinds_are_kept_and_impossible_ones_refused(ada, census):
    await ada.enter(census)
    await ada.reads("raw-risk", percent(census.raw_risk().unique))
    before = ada.text("raw-risk")
    for name in ("postal-code", "age", "occupation"):
        ada.choose(f"role-{name}", "other")
        await ada.until(lambda name=name: census.schema[name].role == "other" and not ada.all(f"hierarchy-{name}"))
    now = percent(census.raw_risk().unique)
    assert now not in before
    await ada.reads("raw-risk", now)
    ada.choose("kind-age", "ordinal")
    await ada.until(lambda: census.schema["age"].kind == "ordinal")
    ada.choose("kind-education", "numeric")
    await ada.told("Column 'education' holds texts, not numbers: choose ordinal or nominal.")
    await ada.until(lambda: ada.at("kind-education").value == "nominal")
    assert census.schema["education"].kind == "nominal"
    await ada.open("/")
    await ada.until(lambda: ada.at("role-age").value == "other")
    assert (ada.at("kind-age").value, ada.at("kind-education").value) == ("ordinal", "nominal")


async def test_without_roles_pages_say_which_are_needed(ada, census):
    for attribute in census.schema.quasi[1:]:
        census.set_attribute(attribute.name, role="other")
    await ada.enter(census)
    await ada.until(lambda: ada.all("role-age"))
    assert ada.all("hint") == []
    ada.choose("role-age", "other")
    await ada.reads("hint", "No column is a quasi-identifier")
    ada.choose("role-income", "other")
    await ada.until(lambda: len(ada.all("hint")) == 2)
    assert "No column is the target" in ada.page
    await ada.until(lambda: ada.text("raw-risk") == "")
    await ada.open("/shape")
    await ada.reads("run-error", "No column is a quasi-identifier: set this role on the page Data.")
    assert ada.text("figures-k") == "–"
    await ada.open("/audit")
    ada.press("start-audit")
    await ada.told("No column is the target of a model: set this role on the page Data.")
    assert ada.text("audit-status") == "There is no audit of this table yet."
    await ada.open("/export")
    await ada.reads("guarantee", "There is no release with these settings.")
    assert not ada.at("export-released.csv").enabled


# Shape


async def test_figures_follow_method_k_and_weights(ada, census):
    await ada.enter(census)
    await ada.open("/shape")
    first = await ada.sees_figures(census, k=10, method="mondrian")
    assert int(ada.text("figures-k")) == first["k"] >= 10
    assert ada.text("figures-risk") == percent(first["risk"]["prosecutor"])
    assert "10-anonymity holds" in ada.text("figures-privacy")
    await ada.reads("figures-risks", percent(census.raw_risk().unique))
    assert ada.text("figures-sample").count("<tr>") == 13
    assert ada.text("figures-accuracy") == "–"
    assert sum(ada.at("figures-sizes").options["series"][0]["data"]) == first["groups"]

    ada.put("weight-age", 5)
    assert ada.text("weight-age-value") == "5.00"
    heavy = await ada.sees_figures(census, weights={"age": 5})
    assert census.settings.weights == {"age": 5}
    assert heavy["loss"]["by_attribute"]["age"] < first["loss"]["by_attribute"]["age"]

    ada.press("reset-weights")
    await ada.until(lambda: set(census.settings.weights.values()) == {1.0})
    again = await ada.sees_figures(census, weights=census.settings.weights)
    assert again["loss"] == first["loss"]
    assert ada.text("weight-age-value") == "1.00"

    ada.put("k", "40")
    await ada.sees_figures(census, k=40)
    assert int(ada.text("figures-k")) >= 40
    assert ada.at("k-slider").value == 40
    ada.put("k-slider", 20)
    coarse = await ada.sees_figures(census, k=20)
    assert ada.at("k").value == 20
    assert coarse["groups"] < first["groups"]

    ada.choose("method", "hilbert")
    other = await ada.sees_figures(census, method="hilbert", k=20)
    assert other["loss"] != coarse["loss"]
    assert "Hilbert" in ada.text("method-told")
    ada.choose("recoding", "set")
    assert (await ada.sees_figures(census, recoding="set"))["loss"] != other["loss"]
    await ada.reads("recoding-told", "sets of values instead of nodes")
    ada.choose("recoding", "default of the method")
    await ada.sees_figures(census, recoding=None)

    ada.put("k", "2.5")
    await ada.reads("run-error", "k must be a whole number from 2 to 10,000, got 2.5.")
    assert census.settings.k == 20
    ada.put("k", "20")
    ada.put("l", "300")
    await ada.reads("run-error", "300")
    assert ada.all("run-error")[0].visible
    ada.put("l", None)
    await ada.sees_figures(census, l=None)
    assert ada.all("run-error") == []


async def test_a_model_is_trained_before_and_after(ada, census):
    await ada.enter(census)
    await ada.open("/shape")
    await ada.sees_figures(census, model=None)
    assert "select a model" in ada.text("figures-accuracy-words")
    ada.choose("model", "decision tree")
    found = await ada.sees_figures(census, model="tree")
    after, words = found["utility"]["after"]["value"], ada.text("figures-accuracy-words")
    assert ada.text("figures-accuracy") == percent(after)
    assert f"{percent(found['utility']['before']['value'])} before" in words
    census.set_attribute("sex", role="target")
    await ada.open("/shape")
    await ada.sees_figures(census, model="tree")
    assert ada.text("figures-accuracy") == "–"
    await ada.reads("figures-accuracy-words", "The schema has 2 targets, sex, income")


# Decisions


async def test_questions_are_decided_skipped_and_undone(ada, census):
    await ada.enter(census)
    await ada.open("/shape")
    await ada.sees_figures(census)
    assert ada.text("duel-row") == ""
    ada.press("tab-duel")
    await ada.reads("duel-count", "No decision yet")
    question = census.ask()
    assert all(str(value) in ada.text("duel-row") for value in question.row.values())
    assert f"{question.first.size} rows, mean loss" in ada.text("duel-first")
    assert f"{question.second.size} rows, mean loss" in ada.text("duel-second")
    assert not ada.at("duel-undo").enabled
    unsure = learned(ada, census)
    assert {weight for weight, _ in unsure.values()} == {1.0}

    ada.press("duel-second")
    await ada.reads("duel-count", "1 decision so far")
    assert [one.choice for one in census.weight_session().log] == ["second"]
    sure = learned(ada, census)
    assert any(weight != 1 for weight, _ in sure.values())
    assert sure == {name: shown(census, name) for name in sure}
    assert census.ask().row != question.row or census.ask().first != question.first
    await ada.sees_figures(census, weights=census.settings.weights)
    assert all(f"{census.settings.weights[name]:.2f}" == ada.text(f"weight-{name}-value") for name in sure)

    ada.press("duel-skip")
    await ada.reads("duel-count", "1 decision so far, 1 skipped")
    assert learned(ada, census) == sure
    ada.press("duel-first")
    await ada.reads("duel-count", "2 decisions so far, 1 skipped")
    for words in ("1 decision so far, 1 skipped", "1 decision so far", "No decision yet"):
        ada.press("duel-undo")
        await ada.until(lambda words=words: ada.text("duel-count") == words)
    assert learned(ada, census) == unsure
    assert not ada.at("duel-undo").enabled
    assert set(census.settings.weights.values()) == {1.0}
    assert census.ask().row == question.row

    ada.press("duel-first")
    await ada.reads("duel-count", "1 decision so far")
    await ada.open("/shape")
    ada.press("tab-duel")
    await ada.reads("duel-count", "1 decision so far")
    ada.press("duel-restart")
    await ada.reads("duel-count", "No decision yet")


def learned(person, workspace):
    """The weights that the page shows, each with how far it may be off."""
    texts = {one.name: person.text(f"learned-{one.name}") for one in workspace.schema.quasi}
    return {name: tuple(float(part) for part in text.split(" ± ")) for name, text in texts.items()}


def shown(workspace, name):
    return round(workspace.weight_session().weights[name], 2), round(workspace.weight_session().uncertainty[name], 2)


# Compare


async def test_variants_are_kept_used_and_dropped(ada, census):
    await ada.enter(census)
    await ada.open("/compare")
    assert "There are no variants yet" in ada.text("no-variants")
    assert ada.all("variants") == ada.all("frontier") == []
    await ada.open("/shape")
    await ada.sees_figures(census, k=10)
    ada.press("keep-variant")
    await ada.told("A variant needs a name of up to 80 characters.")
    ada.on("variant-name").type("fine")
    ada.press("keep-variant")
    await ada.told("Saved as “fine”: see the page Compare.")
    ada.put("k", "50")
    await ada.sees_figures(census, k=50)

    await ada.open("/compare")
    assert ada.at("keep-name").value == "mondrian, k = 50"
    ada.press("keep-variant")
    await ada.until(lambda: "in use" in ada.text("variant-mondrian, k = 50"))
    fine, coarse = census.variants
    assert (fine["name"], coarse["name"]) == ("fine", "mondrian, k = 50")
    for one in (fine, coarse):
        row = ada.text(f"variant-{one['name']}")
        told = [f"{one['groups']:,}", f"{one['k']:,}", percent(one["loss"]["ncp"]), percent(one["risk"]["marketer"])]
        assert all(part in row.split("mondrian", 1)[1] for part in told)
    assert "in use" not in ada.text("variant-fine")
    assert "the plot shows the loss instead" in ada.page
    by_k = str(ada.at("frontier").options)
    ada.put("frontier-across", 1)  # by average risk
    assert str(ada.at("frontier").options) != by_k

    ada.press("use-fine")
    await ada.told("The settings of 'fine' are now in use.")
    await ada.until(lambda: "in use" in ada.text("variant-fine"))
    assert census.settings.k == 10
    ada.press("drop-fine")
    await ada.until(lambda: not ada.all("variant-fine"))
    ada.press("drop-mondrian, k = 50")
    await ada.reads("no-variants", "There are no variants yet")
    assert census.variants == []


async def test_a_variant_that_is_gone_is_not_said_to_be_in_use(ada, census):
    census.keep_variant("fleeting")
    await ada.enter(census)
    await ada.open("/compare")
    census.drop_variant("fleeting")  # as in another window
    ada.press("use-fleeting")
    await ada.told("There is no variant 'fleeting': choose one of the list.")
    await settled()
    assert not any("in use" in one for one in ada.notify.messages)


async def settled():
    """Let handlers that were waited for come to their ends."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_the_lattice_of_flash_is_drawn(ada, census):
    for attribute in census.schema.quasi[3:]:
        census.set_attribute(attribute.name, role="other")
    await ada.enter(census)
    await ada.open("/compare")
    assert ada.all("lattice") == []
    ada.press("draw-lattice")
    await ada.reads("lattice-chosen", "Selected levels: age ", "sex ", "race ")
    assert "<svg" in ada.text("lattice")


# Audit and export


@pytest.mark.slow
async def test_an_audit_is_stopped_and_done(ada, census):
    await ada.enter(census)
    await ada.open("/audit")
    assert ada.text("audit-status") == "There is no audit of this table yet."
    ada.press("start-audit")
    await ada.told("No model is selected: select one on the page Shape.")
    census.change(model="tree")
    ada.choose("references", "quick: none")
    ada.press("start-audit")
    await ada.reads("audit-status", " …")
    assert not ada.at("start-audit").enabled
    ada.press("stop-audit")
    await ada.until(lambda: ada.text("audit-status") == "The audit was stopped before it was done.")
    assert ada.all("stop-audit") == []
    await ada.open("/export")
    assert "There is no evidence yet: an audit attacks the model" in ada.page

    await ada.open("/audit")
    ada.choose("references", "quick: none")
    ada.press("start-audit")
    await ada.reads("audit-status", "Done: the results belong to the current settings.")
    summary = census.audit()["summary"]
    assert list(summary) == ["raw rows", "mondrian, k = 10"]
    for found in summary.values():
        assert all(escape(one["sentence"]) in ada.text("audit-verdicts") for one in found["verdicts"])
        assert all(one["attack"] in ada.text("audit-attacks") for one in found["attacks"])
    assert percent(summary["raw rows"]["scores"]["members"]) in ada.text("audit-scores")
    evidence = await ada.http_client.get(ada.at("get-audit.html").props["href"])
    assert "Audit of the release" in evidence.text
    census.change(k=11)
    await ada.reads("audit-status", "belong to earlier settings: start the audit again.")
    await ada.open("/export")
    assert "The settings have changed since the audit: it covers an earlier release." in ada.page
    assert ada.at("export-audit.json").enabled


async def test_files_commands_and_lines_fit_the_settings(ada, census):
    census.change(method="hilbert", k=15, l=2, weights={"age": 3.0})
    await ada.enter(census)
    await ada.open("/export")
    released = ["released.csv", "released.parquet", "report.html"]
    assert not any(ada.at(f"export-{name}").enabled for name in released)
    assert all(ada.at(f"export-{name}").enabled for name in ("schema.zip", "weights.toml", "table.csv"))
    await ada.reads("guarantee", f"The release is {census.release().k}-anonymous with respect to age, sex,")
    assert "(2 requested)" in ada.text("guarantee")
    assert f"It contains {PEOPLE} of {PEOPLE} rows" in ada.text("guarantee")
    assert all(ada.at(f"export-{name}").enabled for name in released)
    command, snippet = ada.at("command").content, ada.at("snippet").content
    assert "shoal anonymize census.csv --schema schema.toml --method hilbert --k 15 --l 2" in command
    assert "k=15, method='hilbert', constraints=[LDiversity(2)]" in snippet
    compile(snippet, "release.py", "exec")

    for name, part in (("weights.toml", '"age" = 3.0'), ("released.csv", "age,"), ("table.csv", "person-id,age,")):
        ada.press(f"export-{name}")
        await ada.until(lambda part=part: any(part in one.text for one in ada.download.http_responses))
    rows = [one.text.count("\n") for one in ada.download.http_responses if "age," in one.text]
    assert rows == [PEOPLE + 1] * 2
    assert "person-id" not in ada.download.http_responses[1].text

    census.change(method="mondrian", k=6, l=None)
    await ada.open("/export")
    assert "--method mondrian --k 6 --seed" in ada.text("command")
    assert "k=6, method='mondrian', random_state=" in ada.text("snippet")


# Two people


async def test_two_people_do_not_see_each_other(people, studio):
    ada, bob = people(), people()
    of_ada, of_bob = studio.workspace("workspace-of-ada-alone"), studio.workspace("workspace-of-bob-alone")
    await ada.enter(of_ada)
    await bob.enter(of_bob)
    of_ada.open_census(PEOPLE)
    of_ada.change(model=None, k=30)
    of_ada.keep_variant("of Ada")
    await bob.open("/compare")
    assert "No table is open." in bob.page
    of_bob.open_census(200)
    of_bob.change(model=None)
    for person, rows, k in ((ada, 400, 30), (bob, 200, 10)):
        await person.open("/shape")
        assert person.text("source") == f"census: {rows} rows"
        await person.reads("figures-k-words", f"{k} requested")
    ada.put("weight-age", 4)
    await ada.sees_figures(of_ada, weights={"age": 4})
    assert of_bob.settings.weights == {}
    assert bob.text("weight-age-value") == "1.00"
    await ada.open("/compare")
    await bob.open("/compare")
    assert "of Ada" in ada.text("variants")
    assert "There are no variants yet" in bob.text("no-variants")
