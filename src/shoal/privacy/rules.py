"""Privacy models as arrays, for checks of whole partitions and for partitioners that ask of each group they make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shoal._kernels import privacy as kernel
from shoal._kernels.guard import Guard
from shoal.errors import SchemaError
from shoal.privacy.base import PrivacyModel, Rule

if TYPE_CHECKING:
    from shoal.data.table import Column, Table
    from shoal.privacy.counts import Counts


def worst_levels(rules: Sequence[Rule], counts: Counts, *, highest: bool) -> NDArray[np.float64]:
    """Return the worst level of each group over the rules, the highest or the lowest; nan where no rule looks at it."""
    worst = np.fmax if highest else np.fmin
    return np.asarray(worst.reduce([_rule_levels(rule, counts) for rule in rules]), dtype=np.float64)


def satisfied(rules: Iterable[Rule], counts: Counts) -> NDArray[np.bool_]:
    """Tell for each group whether it satisfies all rules."""
    good = np.ones(len(counts.sizes), dtype=np.bool_)
    for rule in rules:
        formula = kernel.FORMULAS[rule.formula]
        good &= kernel.levels_meet(formula, _rule_levels(rule, counts), float(rule.bound), float(rule.other))
    return good


def _rule_levels(rule: Rule, counts: Counts) -> NDArray[np.float64]:
    formula = kernel.FORMULAS[rule.formula]
    if rule.attribute is None:
        return np.asarray(kernel.size_levels(formula, counts.sizes, counts.population))
    tally = counts.sensitive[rule.attribute]
    column = counts.columns[rule.attribute] if rule.formula == "hierarchical" else None
    laid_out = kernel.lay_out([_rule_row(rule, {rule.attribute: 0})], [_prior_of(tally.reference, column)])
    return np.asarray(kernel.tally_levels(laid_out, 0, tally.indptr, tally.values, tally.counts))


def make_guard(constraints: Sequence[PrivacyModel], table: Table) -> Guard:
    """Return the rules that every group must satisfy beside its size, for kernels."""
    member_of = membership(constraints)
    # The number of rows is kept by partitioners themselves unless some rows of a group are not released.
    columns = _sensitive(table)
    asked = [c for c in constraints if member_of is not None or any(r.formula != "rows" for r in c.rules(columns))]
    rules = compile_rules(asked, table, member_of)
    members = np.empty(0, np.uint8) if member_of is None else released_rows(table, member_of)
    weights = np.empty(0, np.int64) if table.weights is None else table.weights
    return with_scratch(Guard(rules, sensitive_codes(asked, table), members, weights, np.empty(0), np.empty(0)))


def with_scratch(guard: Guard) -> Guard:
    """Return the same guard with scratch space of its own, for another thread."""
    histogram, touched = kernel.scratch(guard.rules)
    return guard._replace(histogram=histogram, touched=touched)


def compile_rules(constraints: Iterable[PrivacyModel], table: Table, members_column: str | None = None) -> kernel.Rules:
    """Return the constraints as arrays for `shoal._kernels.privacy.rules_hold`.

    The distributions that groups are compared with are those of the released rows of the table: all of them, unless
    ``members_column`` names the Boolean column that says which. Hand the kernel ``sensitive_codes`` of the same
    constraints, and ``released_rows`` of that column.
    """
    members = None if members_column is None else released_rows(table, members_column) != 0
    rules, used = _rules_and_columns(constraints, table)
    index = {name: position for position, name in enumerate(used)}
    climbing = {rule.attribute for rule in rules if rule.formula == "hierarchical"}
    priors = [
        _prior_of(_shares(column, members, table.weights), column if name in climbing else None)
        for name, column in used.items()
    ]
    return kernel.lay_out([_rule_row(rule, index) for rule in rules], priors)


def sensitive_codes(constraints: Iterable[PrivacyModel], table: Table) -> NDArray[np.uint32]:
    """Return the codes of the sensitive columns that the constraints look at, in the order of ``Rules.column``."""
    _, used = _rules_and_columns(constraints, table)
    codes = np.empty((table.n_rows, len(used)), dtype=np.uint32)
    for position, column in enumerate(used.values()):
        codes[:, position] = column.codes
    return codes


def largest_k(constraints: Iterable[PrivacyModel]) -> int:
    """Return the number of rows that every group must have at least."""
    return max((constraint.at_least for constraint in constraints), default=1)


def membership(constraints: Iterable[PrivacyModel]) -> str | None:
    """Return the column that says which rows are released, None when no constraint names one."""
    named = list({c.attribute: c for c in constraints if c.about_population}.values())
    if len(named) > 1:
        raise SchemaError(
            f"{named[0].describe()} and {named[1].describe()} name different columns of released rows, "
            f"{named[0].attribute!r} and {named[1].attribute!r}: give them the same one."
        )
    return named[0].attribute if named else None


def released_rows(table: Table, attribute: str) -> NDArray[np.uint8]:
    """Return 1 for every row that the Boolean column marks as released, else 0."""
    if attribute not in table.columns:
        raise no_membership(attribute, table.columns)
    column = table.columns[attribute]
    truth = np.array([truth_of(value, attribute) for value in column.values], dtype=np.uint8)
    return truth[column.codes]


def no_membership(attribute: str, names: Iterable[str]) -> SchemaError:
    """Return the error that names a missing column of released rows."""
    there = ", ".join(repr(name) for name in names)
    return SchemaError(f"The column of released rows {attribute!r} is not in the table: it has {there}.")


def truth_of(value: object, attribute: str) -> bool:
    """Read a value of the column of released rows."""
    word = str(value).strip().lower()
    if word in ("true", "yes", "1", "1.0"):
        return True
    if word in ("false", "no", "0", "0.0"):
        return False
    raise SchemaError(f"The column of released rows {attribute!r} holds {value!r}: use true or false.")


def _rules_and_columns(constraints: Iterable[PrivacyModel], table: Table) -> tuple[list[Rule], dict[str, Column]]:
    columns = _sensitive(table)
    rules = [rule for constraint in constraints for rule in constraint.rules(columns)]
    named = {rule.attribute for rule in rules}
    return rules, {name: column for name, column in columns.items() if name in named}


def _sensitive(table: Table) -> dict[str, Column]:
    return {column.attribute.name: column for column in table.sensitive}


def _rule_row(rule: Rule, index: Mapping[str, int]) -> tuple[int, int, float, float]:
    """Return a rule as numbers; ``index`` gives the column of each attribute."""
    column = -1 if rule.attribute is None else index[rule.attribute]
    return kernel.FORMULAS[rule.formula], column, rule.bound, rule.other


def _prior_of(shares: NDArray[np.float64], climbed: Column | None) -> kernel.Prior:
    """Return the distribution of a column in the whole table, with its hierarchy where a rule climbs it."""
    if climbed is None or climbed.tree is None:
        return kernel.Prior(shares, np.empty((shares.size, 0), dtype=np.int32), np.empty(0))
    tree = climbed.tree
    return kernel.Prior(shares, *kernel.climb(tree.table, tree.parent, tree.level))


def _shares(
    column: Column, members: NDArray[np.bool_] | None, weights: NDArray[np.int64] | None
) -> NDArray[np.float64]:
    if column.shares is not None:
        return column.shares
    codes = column.codes if members is None else column.codes[members]
    rows = weights if weights is None or members is None else weights[members]
    counts = np.bincount(codes, rows, column.n_values)
    return counts / max(counts.sum(), 1)
