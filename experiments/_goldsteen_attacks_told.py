"""What the attacks of goldsteen_attacks.py say: Tables 2 and 3 beside the paper's numbers, claims and drawings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _drawing import INK, dots, lay_out, panels
from _study import (
    Answer,
    Claim,
    Row,
    Table,
    Told,
    main_point,
    mean_of,
    ours,
    over_seeds,
    paired,
    show,
    values_of,
    where,
)
from scipy import stats

from shoal.intervals import Interval

FOREST, NETWORK, NONE = "forest", "network", "none"
LONG, LARGE, LARGE_LONG = "network, 200 epochs", "large network", "large network, 200 epochs"
"""The large one is the paper's of this table; those that do not say how long they were trained stop early."""
ALL_COLUMNS = "k = 100, all columns"
Setting = tuple[str, str, str]
# Data, model and defence -> train, test, attack, precision, recall; None where the paper has no such row.
TABLE_2: dict[Setting, tuple[float, ...] | None] = {
    ("Adult", FOREST, NONE): (0.98, 0.83, 0.58, 0.56, 0.78),
    ("Adult", FOREST, "k = 50"): (0.85, 0.83, 0.51, 0.51, 0.33),
    ("Adult", FOREST, "k = 100"): (0.85, 0.81, 0.50, 0.50, 0.76),
    ("Adult", FOREST, "ε = 10"): (0.82, 0.81, 0.53, 0.52, 0.95),
    ("Adult", FOREST, "ε = 1"): (0.80, 0.79, 0.50, 0.52, 0.13),
    ("Adult", LONG, NONE): (0.96, 0.89, 0.53, 0.52, 0.60),
    ("Adult", LARGE_LONG, NONE): (0.96, 0.89, 0.53, 0.52, 0.60),
    ("Adult", LARGE, NONE): None,
    ("Adult", LARGE, "k = 25"): (0.84, 0.82, 0.50, 0.50, 0.71),
    ("Adult", LARGE, "k = 50"): (0.84, 0.81, 0.50, 0.50, 0.32),
    ("Adult", LARGE, "ε = 2.11"): (0.83, 0.83, 0.50, 0.50, 0.14),
    ("Adult", NETWORK, NONE): None,
    ("Adult", NETWORK, "k = 25"): (0.84, 0.82, 0.50, 0.50, 0.71),
    ("Adult", NETWORK, "k = 50"): (0.84, 0.81, 0.50, 0.50, 0.32),
    ("Adult", NETWORK, "ε = 2.11"): (0.83, 0.83, 0.50, 0.50, 0.14),
    ("Adult", NETWORK, "ε = 1"): None,
    ("Loan", FOREST, NONE): (1.00, 0.92, 0.67, 0.65, 0.71),
    ("Loan", FOREST, "k = 100"): (1.00, 0.92, 0.51, 0.51, 0.29),
    ("Loan", FOREST, ALL_COLUMNS): None,
    ("Loan", FOREST, "ε = 10"): (0.82, 0.81, 0.50, 0.66, 0.0094),
    ("Loan", FOREST, "ε = 1"): (0.82, 0.80, 0.50, 0.50, 0.18),
    ("Loan", LONG, NONE): (0.95, 0.95, 0.54, 0.53, 0.67),
    ("Loan", LARGE, NONE): None,
    ("Loan", LARGE, "k = 200"): (0.95, 0.92, 0.50, 0.50, 0.46),
    ("Loan", LARGE, "ε = 3.1"): (0.87, 0.87, 0.50, 0.50, 0.47),
    ("Loan", NETWORK, NONE): None,
    ("Loan", NETWORK, "k = 200"): (0.95, 0.92, 0.50, 0.50, 0.46),
    ("Loan", NETWORK, "ε = 3.1"): (0.87, 0.87, 0.50, 0.50, 0.47),
}
REFERENCES = "LiRA", "RMIA", "references"
OWN_ATTACK = "network"
"""The attack of the paper."""
SMALL_LOSS = 0.02
"""What a forest of Adult loses at k = 100 in the paper."""
WIDE = 0.02
"""An interval that reaches so far says nothing about chance."""
LITTLE = 0.1
"""The part of a raw model's leak that is little."""
TABLE_3 = {1: (0.68, 0.61, 0.41, 0.32), 100: (0.74, 0.56, 0.31, 0.21)}
"""k -> test accuracy, attack accuracy, precision, recall; k of 1 are raw rows."""


# Table 2


def tell_membership(rows: list[Row]) -> Told:
    tables = [table_2(rows, data) for data in ("Adult", "Loan") if where(rows, data=data)]
    claims = [
        leak_claim(rows),
        length_claim(rows),
        main_point(defence_claim(rows)),
        ours(strongest_claim(rows)),
        ours(columns_claim(rows)),
        cost_claim(rows),
        comparable_claim(rows),
        loan_claim(rows),
    ]
    failed = values_of(rows, "error")
    notes = [*NOTES, *(f"Cells that could not be measured: {error}" for error in failed)]
    return Told(tables, claims, notes, membership_lesson(rows))


def membership_lesson(rows: list[Row]) -> str:
    """What the strongest attack tells of a forest before and after, and what that costs."""
    raw, after = ("Adult", FOREST, NONE), ("Adult", FOREST, "k = 50")
    told = [mean_of(of(rows, one), "accuracy", attack=strongest(rows, one)) for one in (raw, after)]
    price = by_pairs(rows, [(after, raw)]).get((after, raw))
    if None in told or price is None:
        return ""
    return (
        f"The strongest attack is right about who trained a forest of Adult in {show(told[0])} of the cases before "
        f"and in {show(told[1])} after anonymization with k = 50 (0.5 is chance), which changes the forest's accuracy "
        f"by {show(price)}."
    )


NOTES = (
    "The best of several attacks lies a little above chance by luck, and its interval does not know of the choice; the "
    "claim about it allows for that.",
    "Half of the columns of the loans are no quasi-identifiers and are released as they are, so that a forest that is "
    "trained on the release still has rows to remember; the release whose quasi-identifiers are all columns is to "
    "tell. The paper reports 0.51 for 421,095 other loans.",
    "The paper's test accuracy of 0.89 for a network of Adult is not reached here by any model on rows that it has "
    "not seen; what it calls train accuracy after anonymization is 1.00 for loans, and so likely that of released "
    "rows.",
)


def of(rows: list[Row], setting: Setting) -> list[Row]:
    return where(rows, **dict(zip(("data", "model", "defence"), setting, strict=True)))


def own_attack(rows: list[Row], setting: Setting) -> list[Row]:
    return where(of(rows, setting), attack=OWN_ATTACK)


def strongest(rows: list[Row], setting: Setting) -> str | None:
    """The attack with reference models that has the largest mean area under the curve."""
    found = {
        attack: mean_of(of(rows, setting), "auc", attack=attack)
        for attack in values_of(of(rows, setting), "attack")
        if attack.startswith(REFERENCES)
    }
    return max(found, key=lambda attack: found[attack].value) if found else None


def name_of(setting: Setting) -> str:
    return setting[1] if setting[2] == NONE else f"{setting[1]}, {setting[2]}"


def table_2(rows: list[Row], data: str) -> Table:
    columns = ["model", "train", "paper", "test", "paper", "attack: accuracy", "paper", "precision", "paper", "recall",
               "paper", "strongest attack", "accuracy", "area"]  # fmt: skip
    shown = []
    for setting, paper in TABLE_2.items():
        own = own_attack(rows, setting)
        if setting[0] != data or not own:
            continue
        line: list[Any] = [name_of(setting)]
        for name, value in zip(("train", "test", "accuracy", "precision", "recall"), paper or (None,) * 5, strict=True):
            line += [mean_of(own, name), value]
        best = strongest(rows, setting)
        shown.append([*line, best, *(mean_of(of(rows, setting), one, attack=best) for one in ("accuracy", "auc"))])
    title = f"{data}: how often models are right about members and others, the paper's attack, and the strongest one."
    return Table(title, columns, shown)


def anonymized(rows: list[Row]) -> list[Setting]:
    """What the paper anonymized, as far as it was measured."""
    return [one for one in TABLE_2 if one[2].startswith("k") and one[2] != ALL_COLUMNS and own_attack(rows, one)]


def raw_of(setting: Setting) -> Setting:
    """The model without a defence that was trained in the same way."""
    return setting[0], setting[1], NONE


def many(found: Sequence[Any]) -> bool:
    """Whether there are enough splits for an interval."""
    return bool(found) and all(one is not None and one.high > one.low for one in found)


def too_wide(found: Sequence[Interval], chance: float = 0.5) -> bool:
    """Whether an interval holds what chance gives only because it holds so much."""
    return any(one.low <= chance <= one.high and one.high - one.value > WIDE for one in found)


def leak_claim(rows: list[Row]) -> Claim:
    says = "A forest that was trained on raw rows leaks who its members are."
    found = {data: mean_of(own_attack(rows, (data, FOREST, NONE)), "accuracy") for data in ("Adult", "Loan")}
    found = {data: one for data, one in found.items() if one is not None}
    if not many(list(found.values())):
        return Claim(says, "cannot be told", "There are too few splits.")
    n = sum(one.low > 0.5 for one in found.values())
    best = {data: strongest(rows, (data, FOREST, NONE)) for data in found}
    areas = {data: mean_of(of(rows, (data, FOREST, NONE)), "accuracy", attack=best[data]) for data in found}
    told = "; ".join(
        f"{data}: the paper's attack is right about {show(one)}, {best[data]} about {show(areas[data])}"
        for data, one in found.items()
    )
    return Claim(says, "yes" if n == len(found) else "partly" if n else "no", told + ".")


def length_claim(rows: list[Row]) -> Claim:
    says = "A network that was trained on raw rows leaks, too."
    told, leaks = [], []
    for data in values_of(rows, "data"):
        for model in (LARGE_LONG, LONG, LARGE, NETWORK):
            one = mean_of(own_attack(rows, (data, model, NONE)), "accuracy")
            if one is not None:
                leaks.append((model, one))
                how = "" if model in (LARGE_LONG, LONG) else ", stopped early"
                told.append(f"{data}, {model}{how}: {show(one)}")
    if not many([one for _, one in leaks]):
        return Claim(says, "cannot be told", "There are too few splits.")
    clear = [model for model, one in leaks if one.low > 0.5]
    holds: Answer = "yes" if len(clear) == len(leaks) else "partly" if clear else "no"
    return Claim(says, holds, f"The paper's attack is right about: {'; '.join(told)}.")


def defence_claim(rows: list[Row]) -> Claim:
    says = "After anonymization the attack is no better than chance."
    found = {setting: mean_of(own_attack(rows, setting), "accuracy") for setting in anonymized(rows)}
    if not many(list(found.values())) or too_wide(list(found.values())):
        return Claim(says, "cannot be told", "There are too few splits.")
    n = sum(one.low <= 0.5 for one in found.values())
    holds: Answer = "yes" if n == len(found) else "partly" if n else "no"
    told = "; ".join(f"{setting[0]} {name_of(setting)}: {show(one)}" for setting, one in found.items())
    return Claim(says, holds, f"0.5 is within the interval, or above it, in {n} of {len(found)} cases: {told}.")


def strongest_claim(rows: list[Row]) -> Claim:
    """For the choice among attacks the interval is widened as Bonferroni does."""
    says = "Nor are attacks with reference models, which find far more in raw models."
    told, answers = [], []
    for setting in anonymized(rows):
        best = strongest(rows, setting)
        if best is None:  # too large for reference models
            continue
        values = [row["accuracy"] for row in where(of(rows, setting), attack=best)]
        before = mean_of(of(rows, raw_of(setting)), "accuracy", attack=strongest(rows, raw_of(setting)))
        if len(values) < 2 or before is None:
            return Claim(says, "cannot be told", "There are too few splits.")
        tries = sum(one.startswith(REFERENCES) for one in values_of(of(rows, setting), "attack"))
        mean, reach = np.mean(values), stats.t.ppf(1 - 0.025 / tries, len(values) - 1) * stats.sem(values)
        if too_wide([Interval(mean, mean - reach, mean + reach)]):
            return Claim(says, "cannot be told", "There are too few splits.")
        little = mean - 0.5 <= LITTLE * (before.value - 0.5)
        answers.append("yes" if mean - reach <= 0.5 else "partly" if little else "no")
        told.append(f"{setting[0]} {name_of(setting)}: {show(over_seeds(values))} ({before.value:.3f} before)")
    if not answers:
        return Claim(says, "cannot be told", "There are too few splits.")
    holds: Answer = "yes" if set(answers) == {"yes"} else "no" if set(answers) == {"no"} else "partly"
    n = answers.count("yes")
    text = f"The strongest is at chance in {n} of {len(answers)} cases, allowing for the choice: {'; '.join(told)}."
    return Claim(says, holds, text)


def columns_claim(rows: list[Row]) -> Claim:
    says = "What still leaks of loans comes from columns that are no quasi-identifiers."
    one, other = ("Loan", FOREST, "k = 100"), ("Loan", FOREST, ALL_COLUMNS)
    both = own_attack(rows, one) + own_attack(rows, other)
    found = paired(both, "accuracy", {"defence": ALL_COLUMNS}, {"defence": one[2]})
    left = mean_of(own_attack(rows, other), "accuracy")
    if not many([found, left]) or too_wide([left]):
        return Claim(says, "cannot be told", "There are too few splits.")
    holds: Answer = "no" if found.high >= 0 else "yes" if left.low <= 0.5 else "partly"
    told = f"With all columns as quasi-identifiers the attack on the forest of k = 100 is right about {show(left)}, "
    return Claim(says, holds, told + f"a change of {show(found)}.")


def by_pairs(rows: list[Row], settings: Sequence[tuple[Setting, Setting]]) -> dict[tuple[Setting, Setting], Interval]:
    """Differences of test accuracy, paired by splits."""
    found = {}
    for one, other in settings:
        both = [row | {"side": side} for side in (one, other) for row in own_attack(rows, side)]
        difference = paired(both, "test", {"side": one}, {"side": other})
        if difference is not None:
            found[one, other] = difference
    return found


def listed(found: dict[tuple[Setting, Setting], Interval]) -> str:
    return "; ".join(
        f"{one[0]} {name_of(one)}, against {'raw rows' if other[2] == NONE else other[2]}: {show(difference)}"
        for (one, other), difference in found.items()
    )


def cost_claim(rows: list[Row]) -> Claim:
    says = "Anonymization costs very little accuracy."
    found = by_pairs(rows, [(one, raw_of(one)) for one in anonymized(rows)])
    if not many(list(found.values())):
        return Claim(says, "cannot be told", "There are too few splits.")
    n = sum(one.value >= -SMALL_LOSS for one in found.values())
    holds: Answer = "yes" if n == len(found) else "partly" if n else "no"
    return Claim(says, holds, f"At most {SMALL_LOSS} in {n} of {len(found)} cases: {listed(found)}.")


def with_privacy(rows: list[Row], data: str | None = None) -> dict[tuple[Setting, Setting], Interval]:
    """The larger k of each model against each budget of differential privacy."""
    pairs = [
        (one, other)
        for one in (("Adult", FOREST, "k = 100"), ("Adult", LARGE, "k = 50"), ("Adult", NETWORK, "k = 50"),
                    ("Loan", FOREST, "k = 100"), ("Loan", LARGE, "k = 200"), ("Loan", NETWORK, "k = 200"))
        for other in TABLE_2
        if other[:2] == one[:2] and other[2].startswith("ε") and data in (None, one[0])
    ]  # fmt: skip
    return by_pairs(rows, pairs)


def comparable_claim(rows: list[Row]) -> Claim:
    says = "Anonymized models are about as accurate as ones with differential privacy, in most cases slightly more."
    found = with_privacy(rows)
    if not many(list(found.values())):
        return Claim(says, "cannot be told", "There are too few splits, or libraries are missing.")
    better, worse = sum(one.low > 0 for one in found.values()), sum(one.high < 0 for one in found.values())
    holds: Answer = "yes" if 2 * better > len(found) and not worse else "no" if 2 * worse > len(found) else "partly"
    told = f"Clearly more accurate in {better} of {len(found)} comparisons, clearly less in {worse}: {listed(found)}."
    return Claim(says, holds, told)


def loan_claim(rows: list[Row]) -> Claim:
    says = "On loans anonymization is 5 to 11 points more accurate than differential privacy."
    found = with_privacy(rows, "Loan")
    if not many(list(found.values())):
        return Claim(says, "cannot be told", "There are too few splits, or libraries are missing.")
    ahead = [one for one in found.values() if one.low > 0]
    far = all(one.value >= 0.05 for one in ahead) and len(ahead) == len(found)
    holds: Answer = "yes" if far else "partly" if ahead else "no"
    return Claim(says, holds, f"{listed(found)}. These are other loans than the paper's.")


def draw_membership(rows: list[Row], path: Path) -> None:
    with panels(path, 2, columns=2, width=5.2, height=4.4) as every:
        for panel, data in zip(every, ("Adult", "Loan"), strict=True):
            settings = [one for one in TABLE_2 if one[0] == data and own_attack(rows, one)]
            names = [name_of(one) for one in settings]
            paper = [TABLE_2[one] and Interval(*[TABLE_2[one][2]] * 3) for one in settings]
            dots(
                panel, 0, "the paper's attack", names, [mean_of(own_attack(rows, one), "accuracy") for one in settings]
            )
            found = [mean_of(of(rows, one), "accuracy", attack=strongest(rows, one)) for one in settings]
            dots(panel, 1, "the strongest attack with reference models", names, found)
            dots(panel, 6, "paper", names, paper, lane=2)
            panel.axvline(0.5, color=INK, linewidth=0.8)
            lay_out(panel, data, x="share of rows that are told right (0.5: chance)")


# Table 3


def tell_attribute(rows: list[Row]) -> Told:
    ks, attacks = values_of(rows, "k"), values_of(where(rows), "attack")
    columns = ["tree of", "attack", "test accuracy", "paper", "attack: accuracy", "paper", "most frequent value",
               "on others", "precision", "paper", "recall", "paper"]  # fmt: skip
    shown = []
    for k in ks:
        for attack in attacks:
            own = where(rows, k=k, attack=attack)
            test, accuracy, precision, recall = (attack == "white-box" and TABLE_3.get(k)) or (None,) * 4
            line = ["raw rows" if k == 1 else f"k = {k}", attack, mean_of(own, "test"), test]
            line += [mean_of(own, "accuracy"), accuracy, mean_of(own, "prior"), mean_of(own, "on_others")]
            shown.append([*line, mean_of(own, "precision"), precision, mean_of(own, "recall"), recall])
    table = Table("What is guessed of members' `social`, from all else that is known of them.", columns, shown)
    claims = [fall_claim(rows), price_claim(rows), ours(prior_claim(rows, attacks)), ours(memory_claim(rows, attacks))]
    return Told([table], claims, ATTRIBUTE_NOTES)


ATTRIBUTE_NOTES = (
    "Nursery has every combination of its attributes once, so that no two rows are alike and k costs much of the "
    "model. The paper's attack accuracies lie below the most frequent value, which it does not mention: to guess that "
    "of everybody would have been better.",
    "The paper's 0.68 for a tree of raw rows could not be found again: any tree of these attributes is nearly always "
    "right, also in the notebook that its authors published later (0.997). That their model gains from anonymization "
    "points to a preparation of the rows that is not stated.",
)


def fall_claim(rows: list[Row]) -> Claim:
    says = "Anonymization with k = 100 is effective against attribute inference: the attack gets less."
    found = paired(where(rows, attack="white-box"), "accuracy", {"k": 100}, {"k": 1})
    if not many([found]):
        return Claim(says, "cannot be told", "There are too few splits.")
    told = f"The white-box attack's accuracy changes by {show(found)} (paper: -0.05)."
    unclear: Answer = "cannot be told" if too_wide([found], 0.0) else "no"
    return Claim(says, "yes" if found.high < 0 else unclear, told)


def prior_claim(rows: list[Row], attacks: Sequence[str]) -> Claim:
    says = "At k = 100 the attack gets no more than the most frequent value."
    found = {attack: mean_of(rows, "gain", k=100, attack=attack) for attack in attacks}
    # An attack that always says the most frequent value gains exactly nothing in all splits.
    if len(values_of(where(rows), "seed")) < 2 or None in found.values() or too_wide(list(found.values()), 0.0):
        return Claim(says, "cannot be told", "There are too few splits.")
    n = sum(one.low <= 0 for one in found.values())
    raw = {attack: mean_of(rows, "gain", k=1, attack=attack) for attack in attacks}
    told = "; ".join(f"{attack} {show(one)} (raw rows: {show(raw[attack])})" for attack, one in found.items())
    holds: Answer = "yes" if n == len(found) else "partly" if n else "no"
    return Claim(says, holds, f"Accuracy above the most frequent value: {told}.")


def memory_claim(rows: list[Row], attacks: Sequence[str]) -> Claim:
    says = "What is guessed of members is memory of them: less is guessed of others."
    found = {attack: mean_of(rows, "memory", k=1, attack=attack) for attack in attacks}
    if not many(list(found.values())):
        return Claim(says, "cannot be told", "There are too few splits.")
    n = sum(one.low > 0 for one in found.values())
    told = "; ".join(f"{attack} {show(one)}" for attack, one in found.items())
    holds: Answer = "yes" if n == len(found) else "partly" if n else "no"
    return Claim(says, holds, f"Raw rows, accuracy on members less that on others: {told}.")


def price_claim(rows: list[Row]) -> Claim:
    says = "The tree is no worse after anonymization (0.68 before, 0.74 after)."
    found = paired(where(rows, attack="white-box"), "test", {"k": 100}, {"k": 1})
    if not many([found]):
        return Claim(says, "cannot be told", "There are too few splits.")
    return Claim(says, "no" if found.high < 0 else "yes", f"Its accuracy changes by {show(found)}.")


def draw_attribute(rows: list[Row], path: Path) -> None:
    ks, attacks = values_of(rows, "k"), values_of(where(rows), "attack")
    names = ["raw rows" if k == 1 else f"k = {k}" for k in ks]
    with panels(path, 2, columns=2, width=4.4, height=2.8) as (accuracy, model):
        for number, attack in enumerate(attacks):
            dots(accuracy, number, attack, names, [mean_of(rows, "accuracy", k=k, attack=attack) for k in ks])
        paper = [TABLE_3.get(k) for k in ks]
        dots(accuracy, 6, "paper", names, [one and Interval(*[one[1]] * 3) for one in paper], lane=3)
        prior = mean_of(rows, "prior")
        if prior is not None:
            accuracy.axvline(prior.value, color=INK, linewidth=0.8, label="most frequent value")
        lay_out(accuracy, "Attacks on members", x="share of values that are guessed right")
        tests = [mean_of(rows, "test", k=k, attack="white-box") for k in ks]
        dots(model, 4, "test accuracy of the tree", names, tests, lane=1)
        dots(model, 6, "paper", names, [one and Interval(*[one[0]] * 3) for one in paper], lane=2)
        lay_out(model, "The tree", x="share of others that it is right about")
