"""What must hold on a release, recomputed from its values by definition."""

import math
from collections import Counter, defaultdict

from naive.groups import common_ancestor
from shoal import (
    AlphaKAnonymity,
    BetaLikeness,
    DeltaDisclosure,
    LDiversity,
    TCloseness,
)
from shoal.anonymizers import method_names
from shoal.partition import recoding

METHODS = method_names()


RECODINGS = list(recoding.RECODINGS)


CONSTRAINTS = [
    (),
    (LDiversity(2),),
    (LDiversity(1.5, kind="entropy"),),
    (LDiversity(2, kind="recursive", c=3.0),),
    (AlphaKAnonymity(0.7, 2),),
    (TCloseness(0.4),),
    (DeltaDisclosure(2.0, count_absent=True),),
    (BetaLikeness(2.0),),
    (BetaLikeness(3.0, kind="enhanced"), LDiversity(2)),
]


def labels_of(frame):
    """Something to learn, for methods that do."""
    return ["early" if value < "x" else "late" for value in frame["s0"]]


def groups_of(frame, names):
    """Row numbers by released values, with nothing but a dictionary."""
    found = defaultdict(list)
    for i, row in enumerate(frame.select(names).rows()):
        found[tuple(map(str, row))].append(i)
    return list(found.values())


def reached(rows, values):
    """Privacy levels of one group, by definition."""
    table = Counter(values)
    counts = Counter(values[i] for i in rows)
    q = {value: n / len(rows) for value, n in counts.items()}
    p = {value: n / len(values) for value, n in table.items()}
    ordered = sorted(counts.values(), reverse=True)
    return {
        "distinct": len(counts),
        "entropy": math.exp(-sum(x * math.log(x) for x in q.values())),
        "recursive": ordered[0] / sum(ordered[1:]) if len(ordered) > 1 else math.inf,
        "alpha": max(q.values()),
        "t": sum(abs(q.get(value, 0) - p[value]) for value in p) / 2,
        "delta": max(abs(math.log(q[v] / p[v])) if v in q else math.inf for v in p),
        "beta": max((q[v] - p[v]) / p[v] for v in q),
        "enhanced": all((q[v] - p[v]) / p[v] <= -math.log(p[v]) + 1e-9 for v in q if q[v] > p[v]),
    }


def fulfilled(constraint, level):
    if isinstance(constraint, LDiversity):
        if constraint.kind == "recursive":
            return level["recursive"] < constraint.c + 1e-9
        return level[constraint.kind] >= constraint.l - 1e-9
    if isinstance(constraint, AlphaKAnonymity):
        return level["alpha"] <= constraint.alpha + 1e-9
    if isinstance(constraint, TCloseness):
        return level["t"] <= constraint.t + 1e-9
    if isinstance(constraint, DeltaDisclosure):
        return level["delta"] < constraint.delta + 1e-9
    return level["beta"] <= constraint.beta + 1e-9 and (constraint.kind == "basic" or level["enhanced"])


def assert_kept(released, schema, k, constraints):
    """Recompute k and the constraints from what is written in the released rows."""
    values = released["s0"].to_list()
    for rows in groups_of(released, [a.name for a in schema.quasi]):
        assert len(rows) >= k
        level = reached(rows, values)
        for constraint in constraints:
            assert fulfilled(constraint, level), (constraint, level)
            assert len(rows) >= getattr(constraint, "k", 1)


def covers(column, shown, code, *, sets):
    """Whether a released cell may stand for a value."""
    if shown == "*":
        return True
    if code == column.missing:
        return shown is None or (isinstance(shown, str) and "missing" in shown)
    text = column.text(code)
    if str(shown) == text or shown == column.values[code]:
        return True
    if column.tree is None:
        low, high = shown.strip("[]").split(", ")
        texts = [column.text(i) for i in range(column.n_present)]
        return texts.index(low) <= code <= texts.index(high)
    if sets or column.attribute.hierarchy is None:
        return text in shown.strip("{}").split(", ")
    node = column.tree.node(shown)
    return common_ancestor(column.tree, [code, *range(column.tree.first[node], column.tree.last[node] + 1)]) == node
