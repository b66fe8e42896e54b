"""Flash on ARX's Adult (30,162 rows, 9 quasi-identifiers, a lattice of 12,960 nodes), and on up to a million rows.

ARX's seconds are those of its faster variant, measured once on a busy machine of the same kind; CPU seconds of a fit
are therefore also shown as a multiple of a numpy lexsort of the same columns, in the same run.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from _measure import in_turn, seconds, show

from shoal import Flash
from shoal.data.table import encode
from shoal.datasets import fetch_adult, make_census

GLOBAL = {(5, 0.0): (0.6355, 0.04), (5, 0.05): (0.2696, 0.39), (5, 1.0): (0.2277, 1.30), (10, 0.05): (0.3178, None)}
GLOBAL[10, 1.0] = (0.2677, None)
LOCAL = {5: (0.0589, 1.13), 10: (0.0820, None), 100: (None, 5.4)}


def main() -> None:
    adult = fetch_adult("train", drop_missing=True, quasi=9, hierarchies="arx")
    codes = encode(adult.frame, adult.schema).codes
    rows = []
    for (k, limit), (loss, arx) in GLOBAL.items():
        flash = Flash(adult.schema, k, suppression=limit)
        rows.append([f"{k}, {limit:.0%}", *_timed(flash, adult.frame, codes, loss, arx)])
    for k, (loss, arx) in LOCAL.items():
        rows.append([f"{k}, local", *_timed(Flash(adult.schema, k, mode="local"), adult.frame, codes, loss, arx)])
    rows.append(["5, mixed", *_timed(Flash(adult.schema, 5, mode="mixed"), adult.frame, codes, None, None)])
    header = ["k, suppression", "loss", "ARX's loss", "checked", "CPU s", "ARX's s", "by ARX's", "by lexsort"]
    show("Adult, 9 quasi-identifiers, CPU seconds from frame to groups", header, rows)
    rows = [_at_scale(n) for n in (100_000, 300_000, 1_000_000)]
    header = ["rows", "lexsort s", "k = 10, 5 % s", "by lexsort", "loss", "local s", "by lexsort", "loss"]
    show("Census, 8 quasi-identifiers, CPU seconds", header, rows)


def _timed(flash: Flash, frame: pl.DataFrame, codes: np.ndarray, loss: float | None, arx: float | None) -> list:
    flash.fit(frame)
    sort, ours = in_turn([lambda: np.lexsort(codes.T[::-1]), lambda: flash.fit(frame)], 5)
    n_checked = flash.findings()["checked"]
    known = f"{loss:.4f}" if loss else "-"
    beside = [arx, f"{ours / arx:.2f}"] if arx else ["-", "-"]
    return [f"{flash.loss_:.4f}", known, n_checked, ours, *beside, f"{ours / sort:,.0f}x"]


def _at_scale(n: int) -> list:
    census = make_census(n)
    quasi = [attribute.name for attribute in census.schema.quasi][:8]
    schema = type(census.schema)(census.schema[name] for name in quasi)
    frame = census.frame.select(quasi)
    codes = encode(frame, schema).codes
    sort = seconds(lambda: np.lexsort(codes.T[::-1]), 1, cpu=True)
    row: list = [n, sort]
    for flash in (Flash(schema, 10, suppression=0.05), Flash(schema, 10, mode="local")):
        ours = seconds(lambda flash=flash: flash.fit(frame), 1, cpu=True)
        row += [ours, f"{ours / sort:,.0f}x", f"{flash.loss_:.4f}"]
    return row


if __name__ == "__main__":
    main()
