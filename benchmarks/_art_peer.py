"""ART's attacks on the rows and models that bench_attacks.py hands over; run by the interpreter that has ART."""

from __future__ import annotations

import json
import sys
import time
import warnings

import numpy as np
from art.attacks.inference.attribute_inference import AttributeInferenceWhiteBoxDecisionTree
from art.attacks.inference.membership_inference import MembershipInferenceBlackBox
from art.estimators.classification.scikitlearn import ScikitlearnDecisionTreeClassifier, SklearnClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier


def main(path: str) -> None:
    warnings.simplefilter("ignore")
    data = dict(np.load(path))
    print(json.dumps({"membership": membership(data), "white-box": white_box(data)}))


def membership(data: dict) -> dict:
    members, controls = (data[f"adult {part}"] for part in ("members", "controls"))
    y_members, y_controls = (data[f"adult y {part}"] for part in ("members", "controls"))
    known, judged = data["adult known"], data["adult judged"]
    model = RandomForestClassifier(100, random_state=0).fit(members, y_members)
    classifier = SklearnClassifier(model)
    found = {}
    for kind in ("rf", "gb"):
        start = time.process_time()
        attack = MembershipInferenceBlackBox(classifier, attack_model_type=kind)
        attack.fit(members[known], y_members[known], controls[known], y_controls[known])
        guesses = [attack.infer(rows[judged], y[judged]) for rows, y in ((members, y_members), (controls, y_controls))]
        spent = time.process_time() - start
        found[kind] = {"accuracy": float((guesses[0].mean() + (1 - guesses[1]).mean()) / 2), "seconds": spent}
    return found


def white_box(data: dict) -> dict:
    rows, y, attacked = data["nursery rows"], data["nursery y"], int(data["nursery feature"])
    model = DecisionTreeClassifier(random_state=0).fit(rows, y)
    attack = AttributeInferenceWhiteBoxDecisionTree(
        ScikitlearnDecisionTreeClassifier(model), attack_feature=attacked
    )
    some = rows[: int(data["nursery judged"])]
    values, sizes = np.unique(rows[:, attacked], return_counts=True)
    start = time.process_time()
    said = attack.infer(
        np.delete(some, attacked, axis=1),
        model.predict(some),
        values=values.tolist(),
        priors=(sizes / sizes.sum()).tolist(),
    )
    spent = time.process_time() - start
    return {"accuracy": float((said.reshape(-1) == some[:, attacked]).mean()), "seconds": spent}


if __name__ == "__main__":
    main(sys.argv[1])
