"""The three risks of a released table beside anonymeter's on the same tables, and how their cost grows with the rows.

``python bench_linkage.py peer growth`` chooses among the two tables; both are the default. anonymeter runs in an
environment of its own, which is made in ``.peer-anonymeter`` from anonymeter.txt where it is missing;
``SHOAL_ANONYMETER_PYTHON`` names the interpreter of another one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from _measure import in_turn, show
from _peer import peer_python

from shoal import anonymize
from shoal.attacks.inference import inference
from shoal.attacks.linkability import linkability
from shoal.attacks.singling_out import singling_out
from shoal.data.frames import convert
from shoal.datasets import fetch_adult, make_census
from shoal.intervals import Interval

HERE = Path(__file__).parent
N_ATTACKS = 500
SIDES = (
    ["age", "workclass", "education-num", "marital-status", "occupation", "relationship"],
    ["race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country"],
)
SECRETS = ["race", "occupation", "income", "age", "hours-per-week"]
CENSUS_SIDES = ["age", "postal-code", "sex"], ["education", "occupation", "hours-per-week"]


def main(tables: list[str]) -> None:
    for name in tables:
        {"peer": beside_anonymeter, "growth": growth}[name]()


def beside_anonymeter() -> None:
    original, control, releases = adult()
    attacks = attacks_on(SIDES, SECRETS)
    peer = anonymeter(original, control, releases, list(attacks))
    rows = []
    for release, released in releases.items():
        for name, attack in attacks.items():
            key = f"{release}, {name}"
            rows.append(line(key, partial(attack, original, released, control), peer[key]))
    show(
        f"Adult, {len(original):,} people and as many others, who are the control; {N_ATTACKS} attacks each; how many "
        "succeed, and the risk\n(success beyond that on the control) with intervals of 95 %, whether the intervals of "
        "both overlap, and CPU seconds from frame to result",
        ["release, attack", "success", "anonymeter", "risk", "anonymeter", "overlap", "s", "anonymeter", "faster"],
        rows,
    )


def line(name: str, attack: Callable[[], Any], peer: dict) -> list[Any]:
    found = attack()
    (seconds,) = in_turn([attack], 25 if found.seconds < 0.1 else 5)
    success, risk = Interval(*peer["success"]), Interval(*peer["risk"])
    same = "yes" if overlap(found.accuracy, success) and overlap(found.advantage, risk) else "no"
    shown = [text(found.accuracy), text(success), text(found.advantage), text(risk), same]
    return [name, *shown, seconds, peer["seconds"], f"{peer['seconds'] / seconds:,.1f}x"]


def growth() -> None:
    attacks = attacks_on(CENSUS_SIDES, ["condition"])
    rows = []
    for n in (30_000, 100_000, 300_000):
        people, control = (make_census(n, seed=seed).frame.drop("person-id") for seed in (1, 2))
        runs = [partial(attack, people, people, control) for attack in attacks.values()]
        rows.append([n, *in_turn(runs, 4)])
    show("Synthetic census, the original table released, CPU seconds", ["rows", *attacks], rows)


def attacks_on(sides: tuple[list[str], list[str]], secrets: list[str]) -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {
        f"singling out, {mode}": partial(singling_out, mode=mode, n_attacks=N_ATTACKS)
        for mode in ("multivariate", "univariate")
    }
    found["linkability"] = partial(linkability, columns=sides, n_attacks=N_ATTACKS)
    return found | {f"inference of {name}": partial(inference, secret=name, n_attacks=N_ATTACKS) for name in secrets}


def adult() -> tuple[Any, Any, dict[str, Any]]:
    """Two halves of Adult as frames of pandas, which is what anonymeter takes; and what is released of the first.

    Halves are of one size, so that neither side has to extrapolate the success on the control.
    """
    frame, schema = fetch_adult("all", drop_missing=True)
    frame = frame.sample(fraction=1.0, shuffle=True, seed=0)
    half = len(frame) // 2
    people = frame[:half]
    grouped = anonymize(people, schema, k=10, recoding="representative").frame
    original, control, released = (convert(one, "pandas") for one in (people, frame[half : 2 * half], grouped))
    return original, control, {"raw": original, "k = 10": released}


def anonymeter(original: Any, control: Any, releases: dict[str, Any], attacks: list[str]) -> dict:
    numbers = original.select_dtypes("number").columns.tolist()
    plan = {"attacks": attacks, "releases": list(releases), "sides": SIDES, "numbers": numbers, "n_attacks": N_ATTACKS}
    with TemporaryDirectory() as folder:
        for name, table in ({"original": original, "control": control} | releases).items():
            table.to_parquet(Path(folder) / f"{name}.parquet")
        (Path(folder) / "plan.json").write_text(json.dumps(plan))
        command = [peer_python("anonymeter"), str(HERE / "_anonymeter_peer.py"), folder]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.splitlines()[-1])


def overlap(one: Interval, other: Interval) -> bool:
    return one.low <= other.high and other.low <= one.high


def text(found: Interval) -> str:
    return f"{found.value:.3f} ({found.low:.3f} to {found.high:.3f})"


if __name__ == "__main__":
    main(sys.argv[1:] or ["peer", "growth"])
