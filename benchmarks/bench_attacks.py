"""Attacks beside ART's on the same rows and models, CPU seconds and accuracy; and what reference models add.

ART runs in an environment of its own, which is made in ``.peer-art`` from art.txt where it is missing;
``SHOAL_ART_PYTHON`` names the interpreter of another one.
"""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from _measure import show
from _peer import peer_python
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from shoal.attacks.attribute import infer_attribute
from shoal.attacks.membership import infer_membership
from shoal.data.table import encode
from shoal.datasets import fetch_adult, fetch_nursery

HERE = Path(__file__).parent


REPEATS = 3
PEERS = {"label": "rule", "forest": "rf", "boosting": "gb", "network": "nn"}
"""Our attacks on membership, and those of ART that learn alike."""


def main() -> None:
    data = adult() | nursery()
    members, controls = data["adult members"], data["adult controls"]
    y_members, y_controls = data["adult y members"], data["adult y controls"]
    model = RandomForestClassifier(100, random_state=0).fit(members, y_members)
    target = model, members, controls, y_members, y_controls
    ours = {name: best(lambda name=name: infer_membership(*target, attacks=[name])) for name in (*PEERS, "loss")}
    together = best(lambda: infer_membership(*target, attacks=list(PEERS)))[1]
    tree = DecisionTreeClassifier(random_state=0).fit(data["nursery rows"], data["nursery y"])
    inverted, white_seconds = best(lambda: invert(tree, data))
    data["nursery judged"] = np.flatnonzero(~np.isnan(inverted.risks))
    peer = art(data)
    theirs = peer["membership"]
    rows = [line(f"membership, {name}", *ours[name], theirs.get(PEERS.get(name, ""))) for name in ours]
    total = sum(one["seconds"] for one in theirs.values())
    rows.append(["those that ART has, in one go", "", "", "", "", together, total, f"{total / together:.1f}x"])
    for name, found in peer["white-box"].items():
        rows.append(line(f"social, white-box ({name.removeprefix('AttributeInferenceWhiteBox')})", inverted,
                         white_seconds, found))  # fmt: skip
    start = time.perf_counter()
    strongest = infer_membership(*target, attacks=["RMIA online", "references and boosting"], n_references=16, n_jobs=2)
    spent = time.perf_counter() - start
    rows += [line(f"membership, {found.attack}", found, spent, None) for found in strongest]
    show(
        f"Adult, {len(members):,} members and as many controls of a forest of 100 trees, half of both known; Nursery, "
        f"the value of\n`social` of {len(data['nursery judged']):,} members from a tree; best CPU seconds, answers of "
        "the model included (of reference\nmodels those of the clock, two side by side)",
        ["attack", "right", "ART", "area", "found at 1 %", "seconds", "ART", "faster"],
        rows,
    )


def best(function) -> tuple:
    """What a function finds, and its least CPU time of several."""
    runs = []
    for _ in range(REPEATS + 1):  # the first one compiles
        start = time.process_time()
        found = function()
        runs.append(time.process_time() - start)
    return found[0], min(runs)


def line(name: str, found, seconds: float, peer: dict | None) -> list:
    few = "" if found.hits_at_1_percent is None else f"{found.hits_at_1_percent.value:.3f}"
    area = "" if found.auc is None else f"{found.auc.value:.3f}"
    if peer is None:
        return [name, f"{found.accuracy.value:.3f}", "", area, few, seconds, "", ""]
    theirs, times = f"{peer['accuracy']:.3f}", f"{peer['seconds'] / seconds:.1f}x"
    return [name, f"{found.accuracy.value:.3f}", theirs, area, few, seconds, peer["seconds"], times]


def invert(model, data: dict):
    """The value of `social` of half of the members, and of as many controls."""
    rows, controls, feature = data["nursery rows"], data["nursery controls"], int(data["nursery feature"])
    return infer_attribute(model, rows, controls, feature, attacks=["white-box"], learner=None)


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
    }


def art(data: dict[str, np.ndarray]) -> dict:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        np.savez(path, **data)
        command = [peer_python("art"), str(HERE / "_art_peer.py"), str(path)]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
