"""The studio in a real browser on Adult: from a slider to changed figures, from a key to the next question.

It needs Chromium and the data folder ``SHOAL_DATA``. Times are wall milliseconds as a person sees them: from the key
that moves a slider until the page shows figures of the new settings, the wait for further changes included.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _measure import show
from playwright.sync_api import Page, sync_playwright

from shoal import Schema
from shoal.datasets import fetch_adult

QUASI = 10
REPEATS = 12
LONGEST = 180_000
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
WATCH = """() => {
  window.longest = 0;
  let last = performance.now();
  const look = () => { const now = performance.now(); window.longest = Math.max(window.longest, now - last); last = now;
    requestAnimationFrame(look); };
  requestAnimationFrame(look);
}"""
PRESSED = """() => { window.changed = false; window.took = null;
  addEventListener('keydown', () => {
    const begun = performance.now();
    const look = () => {
      const older = !!document.querySelector('[data-testid=figures-k]').closest('.shoal-older');
      if (older) window.changed = true;
      if (window.changed && !older) window.took = performance.now() - begun; else requestAnimationFrame(look);
    };
    look();
  }, {once: true, capture: true});
}"""
ANSWERED = """() => { window.took = null;
  const before = document.querySelector('[data-testid=duel-count]').innerText;
  addEventListener('keydown', () => {
    const begun = performance.now();
    const look = () => {
      const now = document.querySelector('[data-testid=duel-count]').innerText;
      if (now !== before) window.took = performance.now() - begun; else requestAnimationFrame(look);
    };
    look();
  }, {once: true, capture: true});
}"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_adult(Path(folder))
        command = [sys.executable, "-m", "shoal", "studio", "adult.csv", "--no-browser", "--folder", folder]
        server = subprocess.Popen([*command, "--data", f"{folder}/kept"], stdout=subprocess.PIPE, text=True, cwd=folder)
        try:
            address = server.stdout.readline().strip().removeprefix("The studio is at ")
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
                measure(browser.new_page(viewport={"width": 1280, "height": 800}), address)
                browser.close()
        finally:
            server.terminate()
            server.wait()


def measure(page: Page, address: str) -> None:
    page.set_default_timeout(LONGEST)
    page.goto(address)
    page.goto(address.split("/?")[0] + "/shape")
    up_to_date(page)
    page.evaluate(WATCH)
    slider = page.get_by_test_id("weight-age").locator("[tabindex]")
    rows = []
    for method in ("mondrian", "sangreea"):
        choose(page, method)
        slider.focus()
        rows.append(line(f"slider, {method}", page, PRESSED, lambda i: slider.press(arrow(i)), up_to_date))

    def twice(i: int) -> None:
        slider.press("ArrowRight")
        page.wait_for_timeout(250)  # a run is under way, and is put aside
        page.evaluate(PRESSED)
        slider.press(arrow(i))

    choose(page, "flash")
    slider.focus()
    rows.append(line("slider during a run, flash", page, PRESSED, twice, up_to_date, 5))
    choose(page, "mondrian")
    page.get_by_test_id("tab-duel").click()
    page.wait_for_function("document.querySelector('[data-testid=duel-count]').innerText.startsWith('No decision')")
    rows.append(line("key to the next question", page, ANSWERED, lambda i: page.keyboard.press(arrow(i)), still))
    title = f"Adult, 30,162 rows, {QUASI} quasi-identifiers, in Chromium: milliseconds"
    show(title, ["", "median", "lowest", "highest", "longest frame"], rows)


def line(
    name: str,
    page: Page,
    watch: str,
    press: Callable[[int], None],
    settle: Callable[[Page], None],
    repeats: int = REPEATS,
) -> list[Any]:
    times = []
    page.evaluate("window.longest = 0")
    for i in range(repeats):
        page.evaluate(watch)
        press(i)
        page.wait_for_function("window.took !== null")
        times.append(page.evaluate("window.took"))
        settle(page)
    longest = page.evaluate("window.longest")
    return [name, *(f"{value:,.0f}" for value in (statistics.median(times), min(times), max(times), longest))]


def arrow(i: int) -> str:
    return "ArrowLeft" if i % 2 else "ArrowRight"


def choose(page: Page, method: str) -> None:
    """Choose a method, and wait for its first run, which loads and compiles what it needs."""
    page.get_by_test_id("method").click()
    page.get_by_role("option", name=method).click()
    page.wait_for_timeout(500)
    up_to_date(page)


def up_to_date(page: Page) -> None:
    page.wait_for_function("document.querySelector('[data-testid=run-status]')?.innerText.startsWith('Up to date')")


def still(page: Page) -> None:
    page.wait_for_timeout(400)


def write_adult(folder: Path) -> None:
    frame, schema = fetch_adult("train", drop_missing=True)
    names = [attribute.name for attribute in schema.quasi][:QUASI]
    kept = [attribute for attribute in schema if attribute.name in names or attribute.role == "target"]
    frame.select([attribute.name for attribute in kept]).write_csv(folder / "adult.csv")
    Schema(kept).to_toml(folder / "adult.toml")


if __name__ == "__main__":
    main()
