"""Constraints on a cluster, for the naive twin of SaNGreeA."""

import numpy as np

from naive import sangreea as naive
from releases import reached
from shoal import (
    BetaLikeness,
    DeltaDisclosure,
    LDiversity,
)
from shoal._kernels.guard import rows_hold
from shoal.privacy.rules import make_guard


def promises_of(constraints, table):
    """Return two functions for the naive twin: whether rows satisfy the constraints, and which rows they lack."""
    guards = {constraint: make_guard([constraint], table) for constraint in constraints}
    values = table.sensitive[0].codes.tolist()

    def keep(constraint, rows):
        return rows_hold(guards[constraint], np.array(rows, np.int64))

    def wants(rows, row):
        broken = next(constraint for constraint in constraints if not keep(constraint, rows))
        level = reached(rows, values)
        absent = {
            LDiversity: getattr(broken, "kind", "") == "distinct" or level["recursive"] == np.inf,
            DeltaDisclosure: level["delta"] == np.inf,
            BetaLikeness: getattr(broken, "kind", "") == "enhanced" and not level["enhanced"],
        }
        if isinstance(broken, LDiversity) and broken.kind == "entropy":
            absent[LDiversity] = False
        return naive.lacks(values, rows, row, absent=absent.get(type(broken), False))

    return {"holds": lambda rows: all(keep(constraint, rows) for constraint in constraints), "wants": wants}
