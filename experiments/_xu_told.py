"""What the runs of xu_null_space.py say: tables beside the paper's numbers, claims and drawings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _drawing import INK, dots, lay_out, panels
from _study import Answer, Claim, Row, Table, Told, main_point, mean_of, ours, paired, show, where

from shoal.intervals import Interval

Setting = tuple[str, int]
"""Data, and how many labels are desired."""
EPSILON = 0.01
ROUNDING = 1e-6
"""Part of a number that may come from sums in another order."""
NOTHING, FIRST, FIRST_MEAN = "nothing", "Algorithm 1", "Algorithm 1, from the mean"
PRINTED, STABLE, LEARNED = "Algorithm 2 as printed", "Algorithm 2, stable", "learned on outputs"
NOISE = "Laplace noise"

# Figures 4 (no attack) and 6 (attack): e_privacy and complete privacy, Algorithm 1 and 2.
PAPER = {
    ("scene", 1): ((0.796, 0.818), (0.796, 0.818), (0.289, 0.510), (0.289, 0.510)),
    ("scene", 3): ((1.358, 0.806), (1.296, 0.807), (0.235, 0.447), (0.233, 0.445)),
    ("scene", 5): ((4.259, 0.823), (3.659, 0.823), (0.047, 0.410), (0.043, 0.418)),
    ("CAL500", 1): ((0.845, 0.857), (5.3e10, 1.0), (0.230, 0.486), (0.005, 0.589)),
    ("CAL500", 87): ((0.156, 0.635), (1.741, 0.799), (0.081, 0.569), (0.008, 0.559)),
    ("CAL500", 173): ((0.034, 0.460), (2.188, 0.596), (0.068, 0.440), (0.029, 0.444)),
    ("wq", 1): ((2.654, 0.526), (2.654, 0.526), (0.308, 0.489), (0.308, 0.489)),
    ("wq", 7): ((2.172, 0.588), (1.956, 0.578), (0.132, 0.392), (0.164, 0.387)),
    ("wq", 13): ((2.265, 0.748), (1.403, 0.455), (0.092, 0.319), (0.086, 0.309)),
    ("oes97", 1): ((5.11e7, 0.654), (5.11e7, 0.654), (4.67e6, 0.394), (4.67e6, 0.394)),
    ("oes97", 8): ((4.23e7, 0.630), (4.23e7, 0.630), (7.48e6, 0.436), (7.48e6, 0.436)),
    ("oes97", 15): ((6.02e7, 0.470), (6.02e7, 0.470), (1.16e7, 0.182), (1.16e7, 0.182)),
}
# Figure 7: data, desired labels, budget -> e_privacy and complete privacy of Laplace noise at the same utility, of
# Algorithm 1, and of Algorithm 1 under attack.
PAPER_NOISE = {
    ("scene", 1, 0.01): (0.009, 0.315, 0.796, 0.818, 0.289, 0.510),
    ("scene", 1, 0.02): (0.019, 0.314, 0.772, 0.818, 0.289, 0.503),
    ("scene", 1, 0.03): (0.027, 0.313, 0.770, 0.818, 0.289, 0.511),
    ("oes97", 8, 0.01): (0.015, 0.246, 4.23e7, 0.630, 7.48e6, 0.436),
    ("oes97", 8, 0.10): (0.162, 0.246, 4.23e7, 0.630, 7.48e6, 0.436),
    ("oes97", 8, 1.00): (1.698, 0.246, 4.23e7, 0.630, 7.48e6, 0.435),
}
TOY = (((3, 1), (1, -1), 2, 5), ((4, 2), (1, -1), 2, 8), ((5, 1), (2, -2), 4, 7), ((6, 5), (0.5, -0.5), 1, 16))
"""Row, cleaned row, desired and confidential label, as printed."""


# Tables


def tell_toy(rows: list[Row]) -> Told:
    shown, same = [], []
    for row, (_, cleaned, y_d, y_c) in zip(rows, TOY, strict=True):
        same.append(np.allclose(row["cleaned"], cleaned) and row["y_d"] == y_d and row["y_c"] == y_c)
        shown.append([_point(row["x"]), _point(row["cleaned"]), _point(cleaned), f"{row['y_d']:g}", f"{row['y_c']:g}"])
    title = "The toy example: what is sent of a row, if the ally predicts the difference of its two features."
    table = Table(title, ["row", "cleaned", "paper", "desired", "confidential"], shown)
    kept = all(np.isclose(row["y_d"], row["y_d_cleaned"]) for row in rows)
    alike = {tuple(row["cleaned"]): {one["y_c"] for one in rows if one["cleaned"] == row["cleaned"]} for row in rows}
    claims = [
        Claim("A row can be cleaned without any loss to the ally.", "yes" if kept and all(same) else "no",
              f"{sum(same)} of {len(rows)} cleaned rows are as printed; predictions "
              f"{'stay the same' if kept else 'change'}."),
        Claim("No predictor can compute the secret from cleaned rows.",
              "yes" if any(len(secrets) > 1 for secrets in alike.values()) else "no",
              "; ".join(f"{_point(sent)} stands for secrets {', '.join(f'{one:g}' for one in sorted(secrets))}"
                        for sent, secrets in alike.items() if len(secrets) > 1) + "."),
    ]  # fmt: skip
    return Told([table], claims)


def _point(values: Sequence[float]) -> str:
    return "(" + ", ".join(f"{one:g}" for one in values) + ")"


def tell(rows: list[Row]) -> Told:
    settings = [key for key in PAPER if where(rows, data=key[0], desired=key[1])]
    tables = [figure_4_and_6(rows, settings), printed_table(rows, settings), relearned_table(rows, settings)]
    noisy = [key for key in PAPER_NOISE if where(rows, data=key[0], desired=key[1], epsilon=key[2], method=NOISE)]
    if noisy:
        tables.append(figure_7(rows, noisy))
    claims = [
        main_point(bound_claim(rows, "Algorithm 1 never moves what the ally predicts by more than the budget "
                               "(Theorem 1).", FIRST)),
        bound_claim(rows, "Nor does Algorithm 2 (Theorem 3), as it is printed.", PRINTED),
        ours(bound_claim(rows, "Algorithm 2, solved in a stable way, keeps to the budget.", STABLE)),
        spent_claim(rows, settings),
        size_claim(rows, settings),
        complete_claim(rows, settings),
        attack_claim(rows, settings),
        more_claim(rows, settings, "Algorithm 2 hides more than Algorithm 1 from who uses the predictor that it "
                   "knows (Theorem 4).", "e_privacy"),
        ours(more_claim(rows, settings, "Algorithm 2 hides more than Algorithm 1 from who learns again, too.",
                        "relative")),
        *noise_claims(rows, noisy),
        ours(more_claim(rows, settings, "Learning the secret on the ally's outputs hides more than Algorithm 2 from "
                        "who learns again.", "relative", LEARNED, STABLE)),
    ]  # fmt: skip
    return Told(tables, claims, NOTES, lesson(rows))


def lesson(rows: list[Row]) -> str:
    """What who learns again is left with, and whether budgets are kept."""
    key = ("scene", 1)
    raw, cleaned = (mean_of(of(rows, key, method), "relative") for method in (NOTHING, FIRST))
    moved = [max((row["e_utility_largest"] / row["epsilon"] for row in where(rows, method=method)), default=None)
             for method in (FIRST, PRINTED)]  # fmt: skip
    if None in (raw, cleaned, *moved):
        return ""
    return (
        f"At a budget of {EPSILON}, who learns the secret labels of scene again from cleaned rows is left with "
        f"{show(cleaned)} of the error of knowing only their means, from raw rows with {show(raw)}. What the ally "
        f"predicts is moved by {moved[0]:.2f} budgets at most under Algorithm 1, by {moved[1]:.2f} under Algorithm 2 "
        "as printed."
    )


NOTES = (
    "**Sizes of errors** differ from the paper's, and not by one factor. It says neither how labels are scaled nor "
    "whether errors are sums or means over them. Its 4.259 for a single label of scene that is 0 or 1 would need "
    "guesses that are off by 2 on average, and could not be reproduced by any reading that was tried; on oes97 the "
    "errors of noise are the paper's.",
    "**Algorithm 2 as printed** takes generalised eigenvectors for coordinates. They are not orthogonal, so what it "
    "takes out of a row is not what it accounts for; and with fewer labels than features the eigenproblem is singular. "
    "That is what the paper's error of 5.3e10 on CAL500 is. Its numbers change with the number of threads.",
    "**Part of complete privacy is a missing constant**: regressions without an intercept are off by it on rows that "
    "were moved to zero. An adversary with an intercept, in the third table, has far less of it.",
    "**On oes97**, which counts employees, a budget of 0.01 is nothing, so that all methods do the same. **On CAL500** "
    "nobody predicts the labels better than by their means, cleaned or not, so that there is nothing to hide.",
    "**Theorem 4** compares rows that are shrunk in one system of coordinates. Algorithm 1 shrinks them in another, "
    "and may by chance send the predictor of the secret past the mark.",
)


def of(rows: list[Row], key: Setting, method: str, epsilon: float = EPSILON) -> list[Row]:
    return where(rows, data=key[0], desired=key[1], method=method, epsilon=epsilon)


def labels_of(rows: list[Row], key: Setting) -> str:
    return f"{key[1]}, {where(rows, data=key[0], desired=key[1])[0]['hidden']}"


def figure_4_and_6(rows: list[Row], settings: list[Setting]) -> Table:
    columns = ["data", "desired, hidden", "attack"]
    for algorithm in ("Alg. 1", "Alg. 2"):
        columns += [f"{algorithm}: e", "paper", "complete privacy", "paper"]
    shown = []
    for key in settings:
        for attack, numbers in (("", PAPER[key][:2]), ("attack_", PAPER[key][2:])):
            line: list[Any] = [key[0], labels_of(rows, key), "learns again" if attack else "none"]
            for method, (error, complete) in zip((FIRST, STABLE), numbers, strict=True):
                own = of(rows, key, method)
                line += [mean_of(own, f"{attack}e_privacy"), error, mean_of(own, f"{attack}complete"), complete]
            shown.append(line)
    return Table("Figures 4 and 6: errors of the secret, and shares of rows with complete privacy.", columns, shown)


def printed_table(rows: list[Row], settings: list[Setting]) -> Table:
    columns = ["data", "desired, hidden", "as printed: e", "complete privacy", "e, learned again",
               "largest e_utility: Alg. 1", "Alg. 2 as printed", "Alg. 2, stable"]  # fmt: skip
    shown = []
    for key in settings:
        own = of(rows, key, PRINTED)
        line = [key[0], labels_of(rows, key), *(mean_of(own, one) for one in ("e_privacy", "complete"))]
        line.append(mean_of(own, "attack_e_privacy"))
        shown.append(line + [largest(of(rows, key, method)) for method in (FIRST, PRINTED, STABLE)])
    return Table("Algorithm 2 as printed, and the largest e_utility of any row at a budget of 0.01.", columns, shown)


def relearned_table(rows: list[Row], settings: list[Setting]) -> Table:
    methods = NOTHING, FIRST, FIRST_MEAN, STABLE, LEARNED
    shown = []
    for key in settings:
        found = [of(rows, key, method) for method in methods]
        shown.append([key[0], labels_of(rows, key), *(mean_of(own, "relative") for own in found)])
        shown[-1] += [mean_of(found[0], "relative_complete"), mean_of(found[1], "relative_complete")]
    title = (
        "The linear adversary with an intercept, who learns again: squared error relative to knowing the mean of the "
        "labels (1 is nothing learned), and complete privacy."
    )
    names = ["data", "desired, hidden", "raw rows", *methods[1:], "complete, raw rows", "complete, Alg. 1"]
    return Table(title, names, shown)


def figure_7(rows: list[Row], noisy: list[tuple[str, int, float]]) -> Table:
    columns = ["data", "budget"]
    for method in ("noise", "Alg. 1", "Alg. 1, attack"):
        columns += [f"{method}: e", "paper", "complete privacy", "paper"]
    shown = []
    for data, desired, budget in noisy:
        noise, first = (of(rows, (data, desired), method, budget) for method in (NOISE, FIRST))
        found = [mean_of(noise, one) for one in ("e_privacy", "complete")]
        found += [mean_of(first, one) for one in ("e_privacy", "complete", "attack_e_privacy", "attack_complete")]
        beside = zip(found, PAPER_NOISE[data, desired, budget], strict=True)
        shown.append([data, f"{budget:g}", *(one for pair in beside for one in pair)])
    return Table("Figure 7: Laplace noise at the same utility.", columns, shown)


def largest(rows: list[Row]) -> float:
    return max((row["e_utility_largest"] for row in rows), default=float("nan"))


# Claims


def bound_claim(rows: list[Row], says: str, method: str) -> Claim:
    """Whether no row of any run is moved further than the budget, rounding aside."""
    own = where(rows, method=method)
    if not own:
        return Claim(says, "cannot be told", "It was not measured.")
    ratios = {row["data"]: 0.0 for row in own}
    for row in own:
        ratios[row["data"]] = max(ratios[row["data"]], row["e_utility_largest"] / row["epsilon"])
    told = ", ".join(f"{ratio:.2f} on {data}" for data, ratio in ratios.items())
    kept = max(ratios.values()) <= 1 + ROUNDING
    return Claim(says, "yes" if kept else "no", f"The row that moved most, in budgets: {told} ({len(own)} runs).")


def as_often(n: int, of_paper: int, total: int) -> Answer:
    """Whether it is so in as many settings as in the paper's own table."""
    if not total:
        return "cannot be told"
    return "yes" if n >= of_paper else "partly" if n else "no"


def spent_claim(rows: list[Row], settings: list[Setting]) -> Claim:
    """Exactly is: the mean of all rows is the budget, to a hundredth of it."""
    says = "The utility's error is exactly the budget, in almost all cases."
    spent = {key: mean_of(of(rows, key, FIRST), "e_utility").value / EPSILON for key in settings}
    whole = [key for key, share in spent.items() if share >= 0.99]
    rest = [f"{share:.2f} of it on {key[0]} {labels_of(rows, key)}" for key, share in spent.items() if share < 0.99]
    told = f"Algorithm 1 spends all of it in {len(whole)} of {len(spent)} settings"
    holds: Answer = "yes" if 10 * len(whole) >= 9 * len(spent) else "partly" if whole else "no"
    beside = "; ".join(rest) + ". Rows whose predictions are small lose all that can be taken for less"
    return Claim(says, holds if settings else "cannot be told", f"{told}{': ' + beside if rest else ''}.")


def size_claim(rows: list[Row], settings: list[Setting]) -> Claim:
    says = "Without an attack the secret's error is much larger than the utility's, almost always."
    ratios = [mean_of(of(rows, key, FIRST), "e_privacy").value / EPSILON for key in settings]
    n, of_paper = sum(ratio > 10 for ratio in ratios), sum(PAPER[key][0][0] > 10 * EPSILON for key in settings)
    told = f"Algorithm 1: more than ten times as large in {n} of {len(ratios)} settings (paper: {of_paper})"
    told += f", from {show(min(ratios))} to {show(max(ratios))} times." if ratios else "."
    return Claim(says, as_often(n, of_paper, len(ratios)), told)


def complete_claim(rows: list[Row], settings: list[Setting]) -> Claim:
    says = "Without an attack most cleaned rows tell no more than the mean row."
    n = sum(mean_of(of(rows, key, FIRST), "complete").value > 0.5 for key in settings)
    of_paper = sum(PAPER[key][0][1] > 0.5 for key in settings)
    with_constant = sum(mean_of(of(rows, key, FIRST), "relative_complete").value > 0.5 for key in settings)
    told = f"Algorithm 1: more than half of the rows in {n} of {len(settings)} settings (paper: {of_paper})"
    told += f"; against who learns again with an intercept, in {with_constant}."
    return Claim(says, as_often(n, of_paper, len(settings)), told)


def attack_claim(rows: list[Row], settings: list[Setting]) -> Claim:
    says = "Who learns again still has an error above the utility's, in most cases."
    counts = {}
    for method in (FIRST, STABLE):
        found = [mean_of(of(rows, key, method), "attack_e_privacy") for key in settings]
        counts[method] = sum(one is not None and one.value > EPSILON for one in found)
    told = ", ".join(f"{method}: {n}" for method, n in counts.items())
    n = min(counts.values())
    holds: Answer = "cannot be told" if not settings else "yes" if 2 * n > len(settings) else "no"
    return Claim(says, holds, f"Settings with an error above 0.01, of {len(settings)}: {told}.")


def more_claim(
    rows: list[Row], settings: list[Setting], says: str, value: str, one: str = STABLE, other: str = FIRST
) -> Claim:
    """Paired over runs: in which settings one method hides clearly more than the other, and in which less.

    Clearly is: the interval of the paired difference does not reach rounding.
    """
    found = {key: paired(where(rows, data=key[0], desired=key[1], epsilon=EPSILON), value, {"method": one},
                         {"method": other}) for key in settings}  # fmt: skip
    known = {key: difference for key, difference in found.items() if difference is not None}
    if not any(difference.high > difference.low for difference in known.values()):
        return Claim(says, "cannot be told", "There are too few runs.")
    sizes = {key: ROUNDING * abs(mean_of(of(rows, key, other), value).value) for key in known}
    more = [key for key, difference in known.items() if difference.low > sizes[key]]
    less = [key for key, difference in known.items() if difference.high < -sizes[key]]
    holds: Answer = "no" if not more else "partly" if less or 2 * len(more) <= len(known) else "yes"
    told = f"Clearly more in {len(more)} of {len(known)} settings{_listed(rows, more)}, clearly less in "
    told += f"{len(less)}{_listed(rows, less)}; in the others there is no clear difference, or none at all."
    return Claim(says, holds, told)


def _listed(rows: list[Row], settings: list[Setting]) -> str:
    return f" ({'; '.join(f'{key[0]} {labels_of(rows, key)}' for key in settings)})" if settings else ""


def noise_claims(rows: list[Row], noisy: list[tuple[str, int, float]]) -> list[Claim]:
    """Paired over runs: Algorithm 1 against noise that costs the ally as much."""
    says = (
        ("At the same utility, cleaning hides far more than Laplace noise.", "e_privacy", "e_privacy", "error"),
        ("Even under attack it has more complete privacy than noise without one.", "attack_complete", "complete",
         "complete privacy"),
    )  # fmt: skip
    claims = []
    for claim, of_first, of_noise, what in says:
        found = []
        for data, desired, budget in noisy:
            pair = [
                {"method": method, "seed": row["seed"], "value": row[name]}
                for method, name in ((FIRST, of_first), (NOISE, of_noise))
                for row in of(rows, (data, desired), method, budget)
            ]
            found.append(paired(pair, "value", {"method": FIRST}, {"method": NOISE}))
        if not any(one is not None and one.high > one.low for one in found):
            claims.append(Claim(claim, "cannot be told", "There are too few runs."))
            continue
        n = sum(one.low > 0 for one in found)
        holds: Answer = "yes" if n == len(found) else "partly" if n else "no"
        told = "; ".join(f"{key[0]} at {key[2]:g}: {show(one)}" for key, one in zip(noisy, found, strict=True))
        claims.append(Claim(claim, holds, f"Difference in {what}, Algorithm 1 less noise: {told}."))
    return [main_point(claims[0]), *claims[1:]]


# Drawing


def draw(rows: list[Row], path: Path) -> None:
    settings = [key for key in PAPER if where(rows, data=key[0], desired=key[1])]
    names = [f"{key[0]} {labels_of(rows, key).replace(', ', ':')}" for key in settings]
    with panels(path, 4, columns=2, width=4.6, height=4.4) as (calm, attacked, learned, noise):
        for panel, value, paper in ((calm, "complete", 0), (attacked, "attack_complete", 2)):
            for number, method in enumerate((FIRST, STABLE, PRINTED)):
                dots(panel, number, method, names, [mean_of(of(rows, key, method), value) for key in settings])
            marks = [PAPER[key][paper][1] for key in settings]
            dots(panel, 6, "Algorithm 1, paper", names, [Interval(one, one, one) for one in marks], lane=3)
        lay_out(calm, "Figure 4: complete privacy, no attack", x="share of rows with complete privacy")
        lay_out(attacked, "Figure 6: complete privacy, who learns again", x="share of rows with complete privacy")
        for lane, (number, method) in enumerate(((0, FIRST), (1, STABLE), (3, LEARNED), (4, NOTHING))):
            label = "raw rows" if method == NOTHING else method
            found = [mean_of(of(rows, key, method), "relative") for key in settings]
            dots(learned, number, label, names, found, lane)
        learned.axvline(1.0, color=INK, linewidth=0.8)
        lay_out(learned, "Who learns again with an intercept", x="error relative to the mean's (1: nothing learned)")
        noisy = [key for key in PAPER_NOISE if of(rows, key[:2], NOISE, key[2])]
        places = [f"{key[0]}, {key[2]:g}" for key in noisy]
        for lane, number, method in ((1, 0, FIRST), (2, 5, NOISE)):
            found = [mean_of(of(rows, key[:2], method, key[2]), "e_privacy") for key in noisy]
            dots(noise, number, method, places, found, lane)
        if noisy:
            noise.set_xscale("log")
        lay_out(noise, "Figure 7: at the same utility, no attack", x="error of the secret")
