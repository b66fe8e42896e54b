"""ART's attacks on the rows and models that bench_attacks.py hands over; run by the interpreter that has ART."""

from __future__ import annotations

import importlib.util
import json
import sys
import time
import warnings

import numpy as np
from art.attacks.inference.attribute_inference import (
    AttributeInferenceWhiteBoxDecisionTree,
    AttributeInferenceWhiteBoxLifestyleDecisionTree,
)
from art.attacks.inference.membership_inference import (
    MembershipInferenceBlackBox,
    MembershipInferenceBlackBoxRuleBased,
)
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
    # Its network needs torch.
    for kind in ("rule", "rf", "gb", *(["nn"] if importlib.util.find_spec("torch") else [])):
        start = time.process_time()
        if kind == "rule":
            attack = MembershipInferenceBlackBoxRuleBased(classifier)
        else:
            attack = MembershipInferenceBlackBox(classifier, attack_model_type=kind)
            attack.fit(members[known], y_members[known], controls[known], y_controls[known])
        guesses = [attack.infer(rows[judged], y[judged]) for rows, y in ((members, y_members), (controls, y_controls))]
        spent = time.process_time() - start
        found[kind] = {"accuracy": float((guesses[0].mean() + (1 - guesses[1]).mean()) / 2), "seconds": spent}
    return found


def white_box(data: dict) -> dict:
    rows, y, attacked = data["nursery rows"], data["nursery y"], int(data["nursery feature"])
    model = DecisionTreeClassifier(random_state=0).fit(rows, y)
    judged = rows[data["nursery judged"]]
    values, sizes = np.unique(rows[:, attacked], return_counts=True)
    asked = {"values": values.tolist(), "priors": (sizes / sizes.sum()).tolist()}
    found = {}
    for kind in (AttributeInferenceWhiteBoxDecisionTree, AttributeInferenceWhiteBoxLifestyleDecisionTree):
        attack = kind(ScikitlearnDecisionTreeClassifier(model), attack_feature=attacked)
        start = time.process_time()
        said = attack.infer(np.delete(judged, attacked, axis=1), model.predict(judged), **asked)
        spent = time.process_time() - start
        accuracy = float((said.reshape(-1) == judged[:, attacked]).mean())
        found[kind.__name__] = {"accuracy": accuracy, "seconds": spent}
    return found


if __name__ == "__main__":
    main(sys.argv[1])
