"""Run all experiments, one after the other, and write docs/papers.md from what they found.

``python experiments/reproduce.py`` goes on where it was stopped; ``--quick`` takes minutes and ``--toy`` shows only
that everything runs, both with a page of their own beside their results. ``--only NAME`` runs those of one file,
``--list`` tells which there are, and ``--tell`` says anew what earlier runs found, without measuring anything.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from pathlib import Path

from _page import PAGE, write_page
from _study import Study, folder_of, run, tell_again

HERE = Path(__file__).parent


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = options.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="size", action="store_const", const="quick", default="full", help="in minutes")
    size.add_argument("--toy", dest="size", action="store_const", const="toy", help="only to see that it runs")
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes side by side")
    options.add_argument("--only", default=None, metavar="NAME", help="a file of experiments, without its ending")
    what = options.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="tell which experiments there are")
    what.add_argument("--tell", action="store_true", help="say anew what was found, without measuring")
    asked = options.parse_args()
    out = folder_of(asked.size)
    for file, studies in files_of_studies(asked.only).items():
        for study in studies:
            if asked.list:
                print(f"python experiments/{file}.py    {study.paper}, {study.title}")
            elif not asked.tell:
                run(study, asked.size, out, asked.jobs)
            elif (out / f"{study.name}.json").exists():
                tell_again(study, out)
    if not asked.list:
        place = PAGE if asked.size == "full" else out / "papers.md"
        place.write_text(write_page(asked.size, files_of_studies()), encoding="utf-8")
        print(f"What was found is in {os.path.relpath(place)}.")


def files_of_studies(only: str | None = None) -> dict[str, tuple[Study, ...]]:
    """All studies, by the name of their file."""
    sys.path.insert(0, str(HERE))
    names = [path.stem for path in sorted(HERE.glob("*.py")) if not path.stem.startswith("_")]
    names.remove(Path(__file__).stem)
    if only is not None and only not in names:
        raise SystemExit(f"There is no file of experiments {only!r}: choose {', '.join(names)}.")
    return {name: importlib.import_module(name).STUDIES for name in (names if only is None else [only])}


if __name__ == "__main__":
    main()
