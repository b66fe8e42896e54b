"""Figure 3 of Goldsteen et al. (2020), privacy-guided training: attacks on a feature against its importance.

``python experiments/privacy_guided_attacks.py`` limits ``social`` of Nursery and ``happiness`` of GSS in a tree ever
more strictly, lets four adversaries guess it, of rows that the tree was trained on and of others, and writes
``results/goldsteen_guided_attacks.csv`` (every attack), .json and .svg. ``--quick`` and ``--toy`` look at fewer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from _drawing import in_percent, lay_out, level, line, panels
from _guided import ATTACKED, LEFT_OUT, LEVELS, METHODS, NO_LIMIT, PAPER, PREPARED, TITLES, Limit, draw_rows, train
from _guided_attacks import (
    ATTACKS,
    BY_MODEL,
    LEARNED,
    OF_PAPER,
    PROTOCOL,
    STOPPED,
    above_prior,
    attack,
    made,
    memorised,
    rank_correlation,
    table_columns,
    table_line,
)
from _study import Answer, Claim, Row, Size, Study, Table, Told, main, main_point, mean_of, ours, paired, show, where

# Tables 7 and 8 of the appendix: limits, and the importances that the paper got.
PAPERS = {
    "nursery": {("splits", 30): 0.049, ("splits", 10): 0.046, ("splits", 5): 0.04, ("splits", 3): 0.025,
                ("splits", 2): 0.02, ("splits", 1): 0.012, (NO_LIMIT, 0): 0.043},
    "gss": {("visits", 3000): 0.08, ("visits", 7000): 0.061, ("visits", 9000): 0.041, ("visits", 10000): 0.005,
            (NO_LIMIT, 0): 0.315},
}  # fmt: skip
LIMITS = {
    "nursery": [(NO_LIMIT, 0), *(("splits", n) for n in (30, 10, 5, 3, 2, 1)), (LEFT_OUT, 0)],
    "gss": [
        (NO_LIMIT, 0),
        *(("visits", n) for n in (3000, 7000, 9000, 10000)),
        *(("levels", n) for n in (5, 10, 20)),
        (LEFT_OUT, 0),
    ],
}
STRICTEST = {"nursery": ("splits", 1), "gss": ("visits", 10000)}
MARGIN = 0.01


def cells(size: Size) -> list[Row]:
    step, seeds = {"full": (1, 5), "quick": (2, 2), "toy": (4, 1)}[size]
    return [
        {"data": data, "method": method, "strictness": strictness, "seed": seed}
        | ({"rows": 800} if size == "toy" else {})
        for seed in range(seeds)
        for data, limits in LIMITS.items()
        for method, strictness in dict.fromkeys([*limits[::step], STRICTEST[data], limits[-1]])
    ]


def measure(data: str, method: str, strictness: float, seed: int, rows: int | None = None) -> list[Row]:
    """All attacks on one tree."""
    drawn = draw_rows(data, seed, rows, boolean=True)
    tree = train("tree", drawn, [ATTACKED[data]], Limit(method, strictness), seed)
    return attack(tree, drawn, data, seed)


def tell(rows: list[Row]) -> Told:
    tables, claims = [], []
    for data in LIMITS:
        own = where(rows, data=data)
        tables += [tell_limits(data, own), tell_attacks(data, own)]
        claims += [main_point(claim_falls(data, own)), ours(claim_free(data, own))]
    claims += [claim_ideal(rows), ours(claim_members(rows))]
    lessons = [lesson(data, where(rows, data=data)) for data in LIMITS]
    return Told(tables, claims, NOTES, " ".join(filter(None, lessons)))


def lesson(data: str, rows: list[Row]) -> str:
    own = made(rows, "white-box")
    before, after = above_prior(where(own, method=NO_LIMIT)), above_prior(where(own, **_strictest(data)))
    price = paired(own, "accuracy", _strictest(data), {"method": NO_LIMIT})
    if None in (before, after, price):
        return ""
    return (
        f"Under the strictest limit a white-box attack on `{ATTACKED[data]}` of {TITLES[data]} goes from "
        f"{show(before)} to {show(after)} above the prior, and the tree's accuracy changes by {show(price)}."
    )


def tell_limits(data: str, rows: list[Row]) -> Table:
    """A line for each tree; attacks are those of the paper's networks."""
    lines = []
    for method, strictness in LIMITS[data]:
        own = where(rows, method=method, strictness=strictness)
        if own:
            lines.append([name_of(method, strictness), PAPERS[data].get((method, strictness)), *table_line(own)])
    title = f"Attacks on `{ATTACKED[data]}` of {TITLES[data]}: share of right guesses"
    return Table(title, ["limit", "importance, paper", *table_columns()], lines)


def tell_attacks(data: str, rows: list[Row]) -> Table:
    """A line for each attack, and whether it follows the importance."""
    lines = []
    for name, learner in [(one, "as published") for one in ATTACKS] + [(one, STOPPED) for one in LEARNED]:
        own = made(rows, name, learner)
        plain = where(own, method=NO_LIMIT)
        strict = where(own, **_strictest(data))
        said = ATTACKS[name] + (f", {learner}" if name in LEARNED else "")
        follows = [rank_correlation(own, "importance", who) for who in ("members", "others")]
        lines.append([said, *follows, *map(above_prior, (plain, strict)), *map(memorised, (plain, strict))])
    columns = ["attack", "rank correlation: members", "others", "above the prior, no limit", "strictest limit",
               "members less others, no limit", "strictest limit"]  # fmt: skip
    title = f"{TITLES[data]}: rank correlation of importance and right guesses over the trees of a seed"
    return Table(title, columns, lines)


def claim_falls(data: str, rows: list[Row]) -> Claim:
    says = f"Attacks on `{ATTACKED[data]}` ({TITLES[data]}) succeed less as its importance in the tree falls."
    found = {name: rank_correlation(made(rows, name), "importance", "members") for name in OF_PAPER}
    changes = {name: _change(data, made(rows, name), "members") for name in OF_PAPER}
    if None in found.values() or None in changes.values():
        return Claim(says, "cannot be told", "There are too few trees.")
    sure = [name for name in OF_PAPER if found[name].low > 0 and changes[name].high < 0]
    holds: Answer = "yes" if len(sure) == len(OF_PAPER) else "partly" if sure else "no"
    told = [
        f"{name}: rank correlation {show(found[name])}, from no limit to the strictest {show(changes[name])}, then "
        f"{show(above_prior(where(made(rows, name), **_strictest(data))))} above the prior"
        for name in OF_PAPER
    ]
    return Claim(says, holds, "; ".join(told) + ".")


def claim_free(data: str, rows: list[Row]) -> Claim:
    says = f"Attacks on `{ATTACKED[data]}` can be made to fail without harming the model ({TITLES[data]})."
    own = made(rows, "white-box")
    gone = paired(own, "accuracy", {"method": LEFT_OUT}, {"method": NO_LIMIT})
    told = []
    for method, strictness in LIMITS[data]:
        limit = {"method": method, "strictness": strictness}
        lost = paired(own, "accuracy", limit, {"method": NO_LIMIT})
        fell = {name: paired(made(rows, name), "members", limit, {"method": NO_LIMIT}) for name in OF_PAPER}
        if method not in (NO_LIMIT, LEFT_OUT) and lost and None not in fell.values():
            told.append((limit, lost, all(one.high < 0 for one in fell.values()), fell))
    if not told or gone is None:
        return Claim(says, "cannot be told", "There are too few trees.")
    free = [one for one in told if one[2] and one[1].low >= -MARGIN]
    strict = _strictest(data)
    price = paired(own, "accuracy", strict, {"method": NO_LIMIT})
    evidence = (
        f"accuracy changes by {show(price)} at the strictest limit, and by {show(gone)} if the feature is left out."
    )
    if free:
        limit, lost, _, fell = free[-1]
        fall = ", ".join(f"{name} {show(one)}" for name, one in fell.items())
        here = f"With {name_of(**limit)} attacks change ({fall}) and accuracy by {show(lost)}; "
        return Claim(says, "yes", here + evidence)
    holds: Answer = "no" if any(one[2] for one in told) else "cannot be told"
    return Claim(says, holds, f"No limit lowers both attacks at a loss of at most one point; {evidence}")


def claim_members(rows: list[Row]) -> Claim:
    """From trees with no limit."""
    says = "Attacks succeed more on rows that the model was trained on."
    plain = where(rows, method=NO_LIMIT)
    gaps = {
        f"{TITLES[data]}, {ATTACKS[name]}": memorised(where(made(plain, name), data=data))
        for data in LIMITS
        for name in BY_MODEL
    }
    if None in gaps.values():
        return Claim(says, "cannot be told", "There are too few trees.")
    n = sum(gap.low > 0 for gap in gaps.values())
    holds: Answer = "yes" if n == len(gaps) else "partly" if n else "no"
    return Claim(
        says, holds, "Members less others: " + ", ".join(f"{key} {show(gap)}" for key, gap in gaps.items()) + "."
    )


def claim_ideal(rows: list[Row]) -> Claim:
    says = "The ideal attack, which does not see the model, stays the same."
    changes = {data: _change(data, made(where(rows, data=data), "ideal"), "members") for data in LIMITS}
    if None in changes.values():
        return Claim(says, "cannot be told", "There are too few trees.")
    still = all(one.low >= -MARGIN and one.high <= MARGIN for one in changes.values())
    told = ", ".join(f"{TITLES[data]} {show(one)}" for data, one in changes.items())
    below = ", ".join(
        f"{TITLES[data]} {show(above_prior(where(made(rows, 'ideal'), data=data, method=NO_LIMIT)))}" for data in LIMITS
    )
    evidence = f"From no limit to the strictest it changes by {told}; it is above the prior by {below}."
    return Claim(says, "yes" if still else "no", evidence)


def _change(data: str, rows: list[Row], who: str) -> Any:
    return paired(rows, who, _strictest(data), {"method": NO_LIMIT})


def _strictest(data: str) -> Row:
    method, strictness = STRICTEST[data]
    return {"method": method, "strictness": strictness}


def name_of(method: str, strictness: float) -> str:
    if method in (NO_LIMIT, LEFT_OUT):
        return "no limit" if method == NO_LIMIT else LEFT_OUT
    return f"{METHODS[method]}, {strictness:,}"


NOTES = [
    "Of Figure 3 only the parameters (Tables 7 and 8) and the importances that they led to are in the paper's text.",
    "The ideal attack cannot change here: it learns from the same rows with the same seed, whatever the tree.",
]


def draw(rows: list[Row], path: Path) -> None:
    with panels(path, 3 * len(LIMITS)) as every:
        for row, data in enumerate(LIMITS):
            own = [one for one in where(rows, data=data) if one["method"] != "levels"]
            limits = [one for one in LIMITS[data] if where(own, method=one[0], strictness=one[1])]
            for panel, who in zip(every[3 * row :], ("members", "others"), strict=False):
                for number, (name, said) in enumerate(ATTACKS.items()):
                    draw_line(panel, number, said, made(own, name), limits, who)
                draw_line(panel, 5, "black-box, stopped early", made(own, "black-box", STOPPED), limits, who)
                prior = mean_of(own, "prior")
                if prior:
                    level(panel, prior.value, "prior", dotted=True)
                title = f"{TITLES[data]}, `{ATTACKED[data]}`: {who}".replace("`", "")
                lay_out(panel, title, f"importance of {ATTACKED[data]}", "right guesses", in_percent)
            last = every[3 * row + 2]
            draw_line(last, 6, "accuracy of the tree", made(own, "ideal"), limits, "accuracy")
            lay_out(last, f"{TITLES[data]}: the tree itself", f"importance of {ATTACKED[data]}", "accuracy", in_percent)


def draw_line(panel: Any, number: int, label: str, rows: list[Row], limits: list[Any], what: str) -> None:
    points = []
    for method, strictness in limits:
        own = where(rows, method=method, strictness=strictness)
        at, found = mean_of(own, "importance"), mean_of(own, what)
        if at and found:
            points.append((at.value, found))
    points.sort(key=lambda point: point[0])
    line(panel, number, label, [at for at, _ in points], [found for _, found in points])


STUDIES = (
    Study(
        name="goldsteen_guided_attacks",
        paper=PAPER,
        title="Figure 3: attacks on a feature against its importance",
        protocol=PREPARED + PROTOCOL + LEVELS,
        cells=cells,
        measure=measure,
        tell=tell,
        draw=draw,
    ),
)

if __name__ == "__main__":
    main(*STUDIES)
