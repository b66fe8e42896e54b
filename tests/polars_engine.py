"""The simplest engine there is: a polars frame, to see that fragments are correct whatever Spark or DuckDB do."""

import numpy as np
import polars as pl

from shoal.data import frames
from shoal.engines.base import ROWS, Engine, LeafTally, leaf_expression
from shoal.partition.table_summary import ColumnSummary


class PolarsDialect:
    def goes_left(self, test):
        column = known(test.attribute)
        if test.values is not None:
            passed = column.is_in(list(test.values))
        else:
            passed = column.is_not_null()
            passed = passed if test.low is None else passed & (column >= test.low)
            passed = passed if test.high is None else passed & (column <= test.high)
        return pl.when(column.is_null()).then(pl.lit(test.missing)).otherwise(passed)

    def has_values(self, values):
        return pl.all_horizontal(known(name).eq_missing(pl.lit(value)) for name, value in values.items())

    def choose(self, condition, yes, no):
        return pl.when(condition).then(yes).otherwise(no)

    def constant(self, value):
        return pl.lit(int(value), pl.Int64)


def known(name):
    return pl.col(name)


class PolarsEngine(Engine):
    dialect = PolarsDialect()

    def __init__(self, frame):
        self.frame, self.names = frame, frame.columns

    def count(self):
        return self.frame.height

    def extremes(self, names):
        found = {}
        for name in names:
            column = self.frame[name]
            values = [column.min(), column.max()] if column.drop_nulls().len() else []
            rows = [1.0] * len(values) + [float(column.null_count())] * (column.null_count() > 0)
            values = values + [None] * (column.null_count() > 0)
            made = pl.DataFrame({name: pl.Series(values, dtype=column.dtype)})
            found[name] = ColumnSummary(frames.open_frame(made)[name], np.array(rows))
        return found

    def distinct(self, name, member_of=None):
        rows = self.frame if member_of is None else self.frame.filter(member_of)
        found = rows.group_by(name).len()
        return ColumnSummary(frames.open_frame(found)[name], found["len"].to_numpy())

    def sample(self, n_rows, seed):
        return frames.open_frame(self.frame.sample(min(n_rows, self.frame.height), seed=seed))

    def combinations(self, names, most):
        return self.frame.group_by(names).agg(pl.len().alias(ROWS)).head(most + 1)

    def leaves(self, tree, numbers=None):
        numbers = range(tree.n_leaves) if numbers is None else numbers
        return self.frame.with_columns(leaf=leaf_expression(tree, self.dialect, numbers))["leaf"].to_numpy()

    def tally(self, tree, sensitive, member_of):
        leaves = self.leaves(tree)
        member = np.ones(len(leaves), bool) if member_of is None else self.frame[member_of].to_numpy()
        population, released = (
            np.bincount(leaves, minlength=tree.n_leaves),
            np.bincount(leaves[member], minlength=tree.n_leaves),
        )
        counted = {}
        for name in sensitive:
            rows = (
                self.frame.with_columns(leaf=pl.Series(leaves)).filter(pl.Series(member)).group_by("leaf", name).len()
            )
            counted[name] = (rows["leaf"].to_numpy(), frames.open_frame(rows)[name], rows["len"].to_numpy())
        return LeafTally(population, released, counted)
