"""The result of an evaluation: its rows, their means, and the largest affordable k."""

from __future__ import annotations

import datetime as dt
import html
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import stats

from shoal.data import frames
from shoal.data.files import replacing, write_table, write_text
from shoal.intervals import CONFIDENCE
from shoal.parameters import Real
from shoal.reports.report import library_versions, render

if TYPE_CHECKING:
    import polars


class Scores(NamedTuple):
    """The measures of a task."""

    score: str
    """The main score; higher is better."""
    scores: tuple[str, ...]
    baseline: str
    """The score of predicting without a model: the most frequent class, or the mean."""


TASKS = {
    "classification": Scores("accuracy", ("accuracy", "f1_macro", "f1_weighted", "auc"), "majority"),
    "regression": Scores("r2", ("r2", "mae", "rmse"), "baseline"),
}


class Estimate(NamedTuple):
    """A mean over seeds, its standard error and its 95 % t-interval; one seed has only a mean."""

    mean: float
    se: float
    low: float
    high: float


class Summary(NamedTuple):
    """The scores of a model, a method and a k over all seeds."""

    model: str
    method: str
    """The method's label."""
    k: int
    seeds: int
    """Number of seeds for which k was reached."""
    failed: int
    """Number of seeds for which k was not reached, which the scores leave out."""
    raw: Estimate
    """Score of the model trained on raw rows."""
    score: Estimate
    loss: Estimate
    """Raw score minus score, seed by seed."""
    baseline: float
    groups: float
    ncp: float
    error: str | None
    """The reason why k was not reached, for one of the seeds."""


class Affordable(NamedTuple):
    """The largest k whose mean loss is within a limit."""

    model: str
    method: str
    k: int | None
    """None if no k in the evaluation is."""
    loss: Estimate | None
    sure: bool
    """True if the whole interval of the loss is within the limit."""
    learned: bool = True
    """True if the model trained on raw rows is better than always predicting the most frequent class, or the mean."""


class Evaluation:
    """The cost of privacy for a model; made by :func:`shoal.evaluate`.

    Attributes
    ----------
    rows : list of dict
        One per model, method, k and seed.
    task : {"classification", "regression"}
    settings : dict
        The rows, target, features, seeds and other settings.
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]], task: str, settings: Mapping[str, Any]) -> None:
        self.rows = [dict(row) for row in rows]
        self.task = task
        self.settings = dict(settings)

    @property
    def score(self) -> str:
        """Name of the main score: accuracy, or r2 if the target is a number."""
        return TASKS[self.task].score

    @property
    def without_model(self) -> str:
        """The baseline in words."""
        what = "the most frequent class" if self.task == "classification" else "the mean"
        return f"always predicting {what}"

    def to_frame(self) -> polars.DataFrame:
        """Return the rows as a polars table."""
        import polars as pl

        kinds: dict[str, Any] = dict.fromkeys(self.rows[0], pl.Float64)
        kinds |= dict.fromkeys(("model", "method", "label", "error"), pl.String)
        kinds |= dict.fromkeys(("rows", "train_rows", "k", "seed", "groups", "suppressed"), pl.Int64)
        kinds |= dict.fromkeys(("smallest_group", "largest_group"), pl.Int64)
        return pl.DataFrame(self.rows, schema=kinds)

    def to_csv(self, path: str | Path) -> None:
        """Write the rows as CSV, in full or not at all."""
        write_table(frames.open_frame(self.to_frame()), path, kind="csv")

    def summary(self) -> list[Summary]:
        """Return means, standard errors and 95 % t-intervals over the seeds, by model, method and k.

        The loss is taken seed by seed, so that the luck of a split, which both models share, cancels out.
        """
        together: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
        for row in self.rows:
            together.setdefault((row["model"], row["label"], row["k"]), []).append(row)
        return [self._summarise(*key, rows) for key, rows in together.items()]

    def affordable(self, loss: float = 0.01) -> list[Affordable]:
        """Return the largest k whose mean loss of the score is at most ``loss``, for each model and method.

        A k that was not reached for some seed is excluded.
        """
        Real(hint="0.01 is one percentage point").check("loss", loss)
        best: dict[tuple[str, str], Affordable] = {}
        for one in self.summary():
            none = Affordable(one.model, one.method, None, None, False)
            known = best.setdefault((one.model, one.method), none)
            within = not one.failed and one.loss.mean <= loss
            if within and (known.k is None or one.k > known.k):
                least = one.raw.mean if math.isnan(one.raw.low) else one.raw.low
                best[one.model, one.method] = none._replace(
                    k=one.k, loss=one.loss, sure=one.loss.high <= loss, learned=least > one.baseline
                )
        return list(best.values())

    def answer(self, loss: float = 0.01) -> list[str]:
        """Describe the largest affordable k in a sentence for each model and method."""
        return [self._sentence(one, loss) for one in self.affordable(loss)]

    def plot(self, path: str | Path) -> None:
        """Draw the score and NCP against k, one panel per model, one line per method; PNG, SVG or PDF by the ending."""
        from shoal.reports.plots import draw, kind_of

        image = draw(self.summary(), self.score, kind_of(path))
        with replacing(path) as temporary:
            temporary.write_bytes(image)

    def to_html(self, path: str | Path, *, title: str = "Cost of privacy", loss: float = 0.01) -> None:
        """Write one self-contained page: the answer in words, the plot, the numbers and the method."""
        write_text(path, render(self._facts(loss), title, "evaluation.html.j2"))

    def show(self, *values: float) -> str:
        """Format a score, or its interval, for people."""
        texts = [f"{value * 100:.1f}" if self.score == "accuracy" else f"{value:.3f}" for value in values]
        return _joined(values, texts, " %" if self.score == "accuracy" else "")

    def show_loss(self, *values: float) -> str:
        """Format a difference of scores, or its interval, for people."""
        texts = [f"{value * 100:.2f}" if self.score == "accuracy" else f"{value:.4f}" for value in values]
        return _joined(values, texts, " points" if self.score == "accuracy" else "")

    def show_limit(self, limit: float) -> str:
        """Format an acceptable difference of scores for people."""
        if self.score != "accuracy":
            return f"{limit:g}"
        return f"{limit * 100:g} point{'s' * (limit != 0.01)}"

    def cells(self, one: Summary) -> list[str]:
        """Return a summary as texts: model, method, k, score, interval, loss, interval, raw score, baseline."""
        found = ["not reached", "", "", ""]
        if one.seeds:
            score, loss = one.score, one.loss
            found = [self.show(score.mean), self.show(score.low, score.high)]
            found += [self.show_loss(loss.mean), self.show_loss(loss.low, loss.high)]
        return [one.model, one.method, f"{one.k:,}", *found, self.show(one.raw.mean), self.show(one.baseline)]

    def _summarise(self, model: str, method: str, k: int, rows: Sequence[Mapping[str, Any]]) -> Summary:
        reached = [row for row in rows if row["error"] is None]
        mean = {name: _mean(row[name] for row in reached) for name in ("groups", "ncp")}
        return Summary(
            model,
            method,
            k,
            len(reached),
            len(rows) - len(reached),
            raw=self._within(estimate(row[f"raw_{self.score}"] for row in rows)),
            score=self._within(estimate(row[self.score] for row in reached)),
            loss=estimate(row[f"{self.score}_loss"] for row in reached),
            baseline=_mean(row[TASKS[self.task].baseline] for row in rows),
            **mean,
            error=next((row["error"] for row in rows if row["error"] is not None), None),
        )

    def _within(self, found: Estimate) -> Estimate:
        """Clip the interval of an accuracy to possible values."""
        if self.score != "accuracy":
            return found
        return found._replace(low=max(found.low, 0.0), high=min(found.high, 1.0))

    def _sentence(self, one: Affordable, limit: float) -> str:
        who = f"{one.model} trained on {one.method} groups"
        if one.k is None or one.loss is None:
            tried = ", ".join(f"{k:,}" for k in sorted({row["k"] for row in self.rows}))
            return f"{who}: no k of {tried} keeps the loss of {self.score} within {self.show_limit(limit)}."
        cost = f"costs {self.show_loss(one.loss.mean)}" if one.loss.mean >= 0 else "costs nothing"
        doubt = f"95 % interval of the loss {self.show_loss(one.loss.low, one.loss.high)}"
        if math.isnan(one.loss.low):
            doubt = "one seed has no interval"
        elif not one.sure:
            doubt += ", which exceeds the limit: use more seeds to be sure"
        said = f"{who}: k = {one.k:,} {cost} of {self.score} ({doubt})."
        if not one.learned:
            said += f" But on raw rows it is not clearly better than {self.without_model}: little could be lost."
        return said

    def _facts(self, limit: float) -> dict[str, Any]:
        """Return the contents of the page."""
        from markupsafe import Markup

        from shoal.reports.plots import draw

        affordable, summary = self.affordable(limit), self.summary()
        found = [one for one in affordable if one.k is not None]
        best = max(found, key=lambda one: (one.k, -one.loss.mean if one.loss else 0), default=None)
        return {
            "evaluation": self,
            "best": best,
            "answers": self.answer(limit),
            "limit": limit,
            "summary": summary,
            "plot": Markup("<svg" + draw(summary, self.score, "svg").decode().partition("<svg")[2]),
            "settings": self.settings,
            "versions": library_versions(),
            "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        }

    def __repr__(self) -> str:
        lines = []
        for one in self.summary():
            found = f"{self.show(one.score.mean)}, loss {self.show_loss(one.loss.mean)}" if one.seeds else "not reached"
            lines.append(f"  {one.model}, {one.method}, k = {one.k:,}: {found}")
        return f"Evaluation of {self.score} over {len(self.settings['seeds'])} seeds\n" + "\n".join(lines)

    def _repr_html_(self) -> str:
        heads = ("model", "method", "k", self.score, "95 % interval", "loss", "95 % interval", "raw", "baseline")
        lines = [heads, *(self.cells(one) for one in self.summary())]
        rows = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in line) + "</tr>" for line in lines)
        return f"<table><caption>Evaluation</caption>{rows}</table>"


def _joined(values: Sequence[float], texts: Sequence[str], unit: str) -> str:
    return "unknown" if any(math.isnan(value) for value in values) else " to ".join(texts) + unit


def estimate(values: Iterable[float]) -> Estimate:
    """Return the mean, standard error and t-interval of some values.

    >>> [round(number, 3) for number in estimate([1.0, 2.0, 3.0])]
    [2.0, 0.577, -0.484, 4.484]
    """
    found = np.array(list(values), float)
    if len(found) < 2:
        return Estimate(_mean(found), math.nan, math.nan, math.nan)
    mean, error = float(found.mean()), float(found.std(ddof=1) / math.sqrt(len(found)))
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(found) - 1)) * error
    return Estimate(mean, error, mean - reach, mean + reach)


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return float(np.mean(found)) if found else math.nan
