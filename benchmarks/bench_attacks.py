"""Attacks beside ART's on the same rows and models, CPU seconds and accuracy; and what reference models add.

ART runs in an environment of its own, which is made in ``.peer-art`` from art.txt where it is missing;
``SHOAL_ART_PYTHON`` names the interpreter of another one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from _measure import show
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from shoal.attacks.attribute import infer_attribute
from shoal.attacks.membership import infer_membership
from shoal.datasets import fetch_adult, fetch_nursery
from shoal.table import encode

HERE = Path(__file__).parent


def main() -> None:
    data = adult() | nursery()
    peer = art(data)
    rows = []
    members, controls = data["adult members"], data["adult controls"]
    y_members, y_controls = data["adult y members"], data["adult y controls"]
    model = RandomForestClassifier(100, random_state=0).fit(members, y_members)
    target = model, members, controls, y_members, y_controls
    for ours, theirs in (("forest", "rf"), ("boosting", "gb")):
        start = time.process_time()
        (found,) = infer_membership(*target, attacks=[ours])
        rows.append(line(f"membership, {ours}", found, time.process_time() - start, peer["membership"][theirs]))
    for name in ("network", "loss"):
        start = time.process_time()
        (found,) = infer_membership(*target, attacks=[name])
        rows.append(line(f"membership, {name}", found, time.process_time() - start, None))
    start = time.perf_counter()
    strongest = infer_membership(
        *target, attacks=["RMIA online", "references and boosting"], n_references=16, n_jobs=2
    )
    spent = time.perf_counter() - start
    rows += [line(f"membership, {found.attack}", found, spent, None) for found in strongest]
    rows.append(white_box(data, peer["white-box"]))
    show(
        f"Adult, {len(members):,} members and as many controls of a forest of 100 trees, half of both known; Nursery, "
        "the value of\n`social` from a tree; CPU seconds (of reference models those of the clock, two side by side)",
        ["attack", "right", "ART", "area", "found at 1 %", "seconds", "ART", "faster"],
        rows,
    )


def line(name: str, found, seconds: float, peer: dict | None) -> list:
    few = "" if found.hits_at_1_percent is None else f"{found.hits_at_1_percent.value:.3f}"
    area = "" if found.auc is None else f"{found.auc.value:.3f}"
    if peer is None:
        return [name, f"{found.accuracy.value:.3f}", "", area, few, seconds, "", ""]
    theirs, times = f"{peer['accuracy']:.3f}", f"{peer['seconds'] / seconds:.1f}x"
    return [name, f"{found.accuracy.value:.3f}", theirs, area, few, seconds, peer["seconds"], times]


def white_box(data: dict, peer: dict) -> list:
    rows, y, feature = data["nursery rows"], data["nursery y"], int(data["nursery feature"])
    model = DecisionTreeClassifier(random_state=0).fit(rows, y)
    options = {"attacks": ["white-box"], "y_members": y, "y_controls": data["nursery y controls"]}
    infer_attribute(model, rows, data["nursery controls"], feature, **options)
    start = time.process_time()
    (found,) = infer_attribute(model, rows, data["nursery controls"], feature, **options)
    seconds = time.process_time() - start
    # ART guesses the values of some rows, ours those of half of the members and controls.
    scaled = peer["seconds"] / int(data["nursery judged"]) * (len(rows) + len(data["nursery controls"])) / 2
    return line("value of social, white-box", found, seconds, peer | {"seconds": scaled})


def adult() -> dict[str, np.ndarray]:
    frame, schema = fetch_adult("all", quasi=12, hierarchies=None)
    X = encode(frame, schema).codes.astype(float)
    y = (frame["income"] == ">50K").to_numpy().astype(int)
    random = np.random.default_rng(0)
    order = random.permutation(len(X))
    half = len(X) // 2
    halves = random.permutation(half)
    return {
        "adult members": X[order[:half]],
        "adult controls": X[order[half : 2 * half]],
        "adult y members": y[order[:half]],
        "adult y controls": y[order[half : 2 * half]],
        "adult known": np.sort(halves[: half // 2]),
        "adult judged": np.sort(halves[half // 2 :]),
    }


def nursery() -> dict[str, np.ndarray]:
    frame, schema = fetch_nursery(boolean_social=True)
    names = [attribute.name for attribute in schema if attribute.role != "target"]
    X = np.column_stack([np.unique(frame[name].to_numpy(), return_inverse=True)[1] for name in names]).astype(float)
    y = np.unique(frame["class"].to_numpy(), return_inverse=True)[1]
    order = np.random.default_rng(0).permutation(len(X))
    cut = int(0.8 * len(X))
    return {
        "nursery rows": X[order[:cut]],
        "nursery y": y[order[:cut]],
        "nursery controls": X[order[cut:]],
        "nursery y controls": y[order[cut:]],
        "nursery feature": np.array(names.index("social")),
        "nursery judged": np.array(500),
    }


def art(data: dict[str, np.ndarray]) -> dict:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        np.savez(path, **data)
        command = [peer_python(), str(HERE / "_art_peer.py"), str(path)]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.splitlines()[-1])


def peer_python() -> str:
    """The interpreter of ART's environment, which is made if it is not there."""
    if given := os.environ.get("SHOAL_ART_PYTHON"):
        return given
    home = HERE.parent / ".peer-art"
    python, made = home / "bin" / "python", home / ".made"
    if not made.exists():
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]
        subprocess.run([python, *install, HERE / "art.txt"], check=True)
        made.touch()
    return str(python)


if __name__ == "__main__":
    main()
