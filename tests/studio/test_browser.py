"""The studio in a real browser: a newcomer's way through all pages, a drag, decisions by keys, a restart, bad files.

Screenshots are kept in the folder that ``SHOAL_SCREENSHOTS`` names, if it names one.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("nicegui")
pytest.importorskip("playwright")
from playwright.sync_api import expect, sync_playwright

from shoal import make_model
from shoal.datasets import make_census
from shoal.models import save_model

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium was found: the pages are not looked at")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip
SOON, LATER = 30_000, 120_000
expect.set_options(timeout=SOON)


class Served:
    """A studio in a process of its own, that can be killed and started again."""

    def __init__(self, home, *options):
        self.home, self.options = home, options
        self.start()

    def start(self, *further):
        folders = ["--folder", str(self.home), "--data", str(self.home / "kept")]
        command = [sys.executable, "-m", "shoal", "studio", "--no-browser", *folders, *self.options, *further]
        telling = os.environ | {"PYTHONFAULTHANDLER": "1"}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=telling)
        self.address = self.process.stdout.readline().strip().removeprefix("The studio is at ")
        assert self.address.startswith("http://127.0.0.1:")

    def kill(self):
        ended = self.process.poll()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        assert ended is None, f"The studio had ended by itself with {ended}."


@pytest.fixture
def served(tmp_path):
    (tmp_path / "broken.csv").write_bytes(b"\xff\xfe\x00a,b\n\x001")
    make_census(2000, seed=1).frame.write_csv(tmp_path / "people.csv")
    studio = Served(tmp_path, "--most-upload", "2")
    yield studio
    studio.kill()


@pytest.fixture
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser):
    """A page that notes what it asks for elsewhere, and what breaks in it."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.set_default_timeout(SOON)
    elsewhere, broken = [], []
    page.on("request", lambda sent: elsewhere.append(sent.url) if _is_elsewhere(sent.url) else None)
    page.on("pageerror", lambda error: broken.append(str(error)))
    yield page
    assert elsewhere == []
    assert broken == []


def _is_elsewhere(url):
    return not url.startswith(("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:", "about:"))


def enter(page, served):
    page.goto(served.address, timeout=LATER)  # the studio may still be starting


def go(page, path):
    page.goto(page.url.split("/", 3)[0] + "//" + page.url.split("/")[2] + path, timeout=LATER)


def shoot(page, name, full_page=True):
    if folder := os.environ.get("SHOAL_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=full_page)


def test_a_newcomer_gets_from_nothing_to_a_release(page, served, tmp_path):
    enter(page, served)
    assert "token" not in page.url
    expect(page.get_by_test_id("empty-state")).to_be_visible()
    shoot(page, "1-empty")
    page.get_by_test_id("open-census").click()
    expect(page.get_by_test_id("source")).to_contain_text("census")
    expect(page.get_by_test_id("raw-risk")).to_be_visible()
    shoot(page, "2-data")
    go(page, "/shape")
    expect(page.get_by_test_id("figures-k")).to_contain_text("10", timeout=LATER)
    shoot(page, "3-shape")
    slider = page.get_by_test_id("weight-age").locator("[tabindex]")
    lost = page.get_by_test_id("loss-age").inner_text()
    slider.focus()
    for _ in range(20):
        slider.press("ArrowRight")
    expect(page.get_by_test_id("loss-age")).not_to_have_text(lost, timeout=LATER)
    page.get_by_test_id("variant-name").fill("age matters")
    page.get_by_test_id("keep-variant").click()
    expect(page.get_by_text("Saved as")).to_be_visible(timeout=LATER)
    go(page, "/compare")
    expect(page.get_by_test_id("variant-age matters")).to_be_visible(timeout=LATER)
    shoot(page, "4-compare")
    go(page, "/export")
    expect(page.get_by_test_id("guarantee")).to_contain_text("10-anonymous with respect to", timeout=LATER)
    expect(page.get_by_test_id("command")).to_contain_text("shoal anonymize census.csv")
    shoot(page, "5-export")
    with page.expect_download(timeout=LATER) as waiting:
        page.get_by_test_id("export-released.csv").click()
    waiting.value.save_as(tmp_path / "released.csv")
    assert len((tmp_path / "released.csv").read_text().splitlines()) > 1000
    page.set_viewport_size({"width": 768, "height": 1024})
    page.emulate_media(color_scheme="dark")
    go(page, "/shape")
    expect(page.get_by_test_id("figures-k")).to_contain_text("10", timeout=LATER)
    shoot(page, "6-tablet-dark")


@pytest.mark.slow
def test_ten_questions_by_keys_a_drag_and_a_restart_in_between(page, served):
    enter(page, served)
    page.get_by_test_id("open-census").click()
    expect(page.get_by_test_id("source")).to_contain_text("census")
    go(page, "/shape")
    page.get_by_test_id("tab-duel").click()
    expect(page.get_by_test_id("duel-count")).to_contain_text("No decision yet", timeout=LATER)
    for n in range(1, 6):
        page.keyboard.press("ArrowLeft" if n % 2 else "ArrowRight")
        expect(page.get_by_test_id("duel-count")).to_contain_text(f"{n} decision", timeout=LATER)
    shoot(page, "7-duel")
    served.kill()
    served.start("--resume")
    enter(page, served)
    go(page, "/shape")
    page.get_by_test_id("tab-duel").click()
    expect(page.get_by_test_id("duel-count")).to_contain_text("5 decisions so far", timeout=LATER)
    for n in range(6, 11):
        page.keyboard.press("1" if n % 2 else "2")
        expect(page.get_by_test_id("duel-count")).to_contain_text(f"{n} decisions", timeout=LATER)
    page.get_by_test_id("duel-row").drag_to(page.get_by_test_id("duel-second"))
    expect(page.get_by_test_id("duel-count")).to_contain_text("11 decisions", timeout=LATER)
    page.keyboard.press("u")
    expect(page.get_by_test_id("duel-count")).to_contain_text("10 decisions", timeout=LATER)
    learned = page.get_by_test_id("learned-age").inner_text()
    assert "±" in learned


def test_a_row_is_dragged_by_a_finger(browser, served):
    page = browser.new_context(has_touch=True, viewport={"width": 768, "height": 1024}).new_page()
    enter(page, served)
    page.get_by_test_id("census-rows").fill("600")
    page.get_by_test_id("open-census").click()
    expect(page.get_by_test_id("source")).to_contain_text("600 rows")
    go(page, "/shape")
    page.get_by_test_id("tab-duel").click()
    expect(page.get_by_test_id("duel-count")).to_contain_text("No decision yet", timeout=LATER)
    row, group = (page.get_by_test_id(name) for name in ("duel-row", "duel-first"))
    row.tap(trial=True)  # waits until the page has slid in: where things are before is where none is touched
    start, aim = row.bounding_box(), group.bounding_box()
    finger = page.context.new_cdp_session(page)

    def touch(kind, *x):
        points = [{"x": one, "y": start["y"] + 40} for one in x]
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", start["x"] + 60)
    touch("touchMove", start["x"] + 20)
    expect(row).to_contain_class("shoal-dragged")
    touch("touchMove", aim["x"] + 60)
    expect(group).to_contain_class("shoal-over")
    shoot(page, "13-by-finger", full_page=False)  # a whole page is shot in a larger window, which ends a touch
    touch("touchEnd")
    expect(page.get_by_test_id("duel-count")).to_contain_text("1 decision", timeout=LATER)


def test_files_good_bad_and_huge(page, served, tmp_path):
    enter(page, served)
    chooser = page.locator("input[type=file]").first
    chooser.set_input_files(str(tmp_path / "broken.csv"))
    expect(page.get_by_role("alert").first).to_be_visible()
    expect(page.get_by_test_id("empty-state")).to_be_visible()
    huge = tmp_path / "huge.csv"
    huge.write_text("a,b\n" + "12345,67890\n" * 400_000)
    chooser.set_input_files(str(huge))
    page.wait_for_timeout(2000)
    expect(page.get_by_test_id("empty-state")).to_be_visible()
    shoot(page, "8-refused")
    chooser.set_input_files(str(tmp_path / "people.csv"))
    expect(page.get_by_test_id("source")).to_contain_text("people.csv", timeout=LATER)
    shoot(page, "9-people")


@pytest.mark.slow
def test_a_model_is_uploaded_and_a_pickle_refused(page, served, tmp_path):
    census = make_census(600)
    model = make_model("logistic", census.schema).fit(census.frame, census.frame["income"].to_numpy())
    for name in ("mine.skops", "mine.joblib"):
        save_model(model, tmp_path / name)
    enter(page, served)
    page.get_by_test_id("census-rows").fill("600")
    page.get_by_test_id("open-census").click()
    expect(page.get_by_test_id("source")).to_contain_text("600 rows")
    go(page, "/shape")
    page.get_by_text("Upload a model").click()
    chooser = page.locator("input[type=file]")
    chooser.set_input_files(str(tmp_path / "mine.joblib"))
    expect(page.get_by_text("would run whatever code its maker put there")).to_be_visible(timeout=LATER)
    chooser.set_input_files(str(tmp_path / "mine.skops"))
    expect(page.get_by_text("The model mine.skops is selected")).to_be_visible(timeout=LATER)
    expect(page.get_by_test_id("figures-accuracy")).to_contain_text("%", timeout=LATER)


def test_a_value_is_dragged_to_another_group(page, served):
    enter(page, served)
    page.get_by_test_id("census-rows").fill("600")
    page.get_by_test_id("open-census").click()
    expect(page.get_by_test_id("source")).to_contain_text("600 rows")
    page.get_by_test_id("hierarchy-marital-status").click()
    expect(page.get_by_test_id("hierarchy-tree")).to_be_visible()
    shoot(page, "11-hierarchy")
    moved, onto = page.get_by_test_id("node-Widowed"), page.get_by_test_id("node-Married")
    moved.drag_to(onto)
    page.get_by_test_id("hierarchy-done").click()
    page.get_by_test_id("hierarchy-marital-status").click()
    expect(page.get_by_test_id("hierarchy-tree")).to_be_visible()
    shoot(page, "12-dragged")
    root = served.address.split("/?")[0]
    tree = page.request.get(root + "/api/columns/marital-status/hierarchy").json()
    married = next(child for child in tree["children"] if child["label"] == "Married")
    assert "Widowed" in {child["label"] for child in married["children"]}


def test_an_audit_runs_beside_the_page(page, served):
    enter(page, served)
    page.get_by_test_id("census-rows").fill("1000")
    page.get_by_test_id("open-census").click()
    expect(page.get_by_test_id("source")).to_contain_text("1,000 rows")
    go(page, "/audit")
    page.get_by_test_id("start-audit").click()
    expect(page.get_by_test_id("audit-verdicts")).to_be_visible(timeout=LATER)
    expect(page.get_by_test_id("audit-verdicts")).to_contain_text("membership", ignore_case=True)
    shoot(page, "10-audit")
    with page.expect_popup() as opening:
        page.get_by_test_id("open-audit.html").click()
    expect(opening.value.get_by_role("heading").first).to_contain_text("Audit of the release")
    shoot(opening.value, "14-evidence")


def test_two_people_do_not_see_each_other(browser, served):
    one, other = (browser.new_context().new_page() for _ in range(2))
    for person in (one, other):
        person.set_default_timeout(SOON)
        enter(person, served)
    one.get_by_test_id("open-census").click()
    expect(one.get_by_test_id("source")).to_contain_text("census")
    other.reload()
    expect(other.get_by_test_id("empty-state")).to_be_visible()
    expect(other.get_by_test_id("source")).to_contain_text("no table")
