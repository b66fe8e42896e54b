"""Accuracy-guided anonymization (Goldsteen et al. 2020): the leaves of a tree that learns the output of a model."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import get_scorer
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from shoal._kernels import ahead
from shoal._kernels.guard import Guard
from shoal.anonymizers._base import Anonymizer, PartitionInput, part_of
from shoal.anonymizers._guided_groups import Grouping, Plan, group_alike, group_by_guide
from shoal.anonymizers._search import (
    MOST_SEARCH_ROWS,
    Attempts,
    Candidate,
    Fold,
    TriedCandidate,
    sample_rows,
    search,
    search_folds,
)
from shoal.data.factored import FactoredFrame
from shoal.data.table import Table
from shoal.errors import DataError, GuaranteeError, ShoalError, reason
from shoal.models.estimators import takes_factors
from shoal.models.guides import (
    MOST_CLASSES,
    Guide,
    ModelInput,
    Trained,
    are_alike,
    can_retrain,
    guide_from_model,
    guide_from_values,
    guide_out_of_fold,
    labels_to_learn_from,
    name_of,
    needs_training,
    predicts_numbers,
    read_labels,
)
from shoal.models.named import make_model
from shoal.models.targets import features, read_target
from shoal.parameters import FLAG, JOBS, SCORING, Choice, Constraint, Real, Whole, having
from shoal.partition.binned_trees import CRITERIA, FORMS
from shoal.partition.cut_tree import Cuts, count_threads
from shoal.partition.recoding import RECODINGS, needs, recode, recodings_that_publish, released_rows

CANDIDATES = ("hard", 1.0, 0.7, 0.5, 0.3, 0.15, "mondrian")
"""Guides of the search."""
MORE_CANDIDATES = ("hard", 1.0, 0.85, 0.7, 0.5, 0.4, 0.3, 0.2, 0.15, 0.1, 0.05, 0.02, "mondrian")
"""Guides of the search if groups are few: luck then matters more than the guide, so more attempts help."""
RECODINGS_TRIED = ("representative", "centroid", "majority")
"""Recodings that are tried with the best guides; the last one for classes only. On Adult a network gains three points
with centroids of groups of a thousand; means harm models that scale their input."""
MORE_RECODINGS = ("representative", "centroid", "median", "majority")
"""The same if groups are few."""
N_FINALISTS = 3
"""Number of guides that are tried with all recodings; all of them if groups are few."""
FEW_GROUPS = 100
"""Groups are few if k allows at most this number."""
ROWS_THAT_HIDE_ONE = 50
"""Groups of this size cannot follow the labels of single rows, so the search is fair without a first round."""
SAFE_CHOICE = 0.7
"""The guide if no search is possible: the best, or nearly, for every model that was measured."""
FOLDS = 5
"""Number of folds for out-of-fold predictions."""
FOLDS_OF_MANY = 3
"""The same for tables of which the search uses a sample: two thirds of them train a model nearly as well."""


@dataclass(eq=False, repr=False)
class AccuracyGuided(Anonymizer):
    """Partition so that a model retrained on the release stays accurate.

    A decision tree learns the output of a model for each row; its leaves, each of at least k rows, are the groups. By
    default it learns the model's out-of-fold logits, blended with the attributes themselves in a proportion that a
    search finds: release the rows, retrain the model on the release, score it on the raw rows. A model that is trained
    on the release accepts raw rows.

    Parameters
    ----------
    schema : Schema, optional
        By default every column is a quasi-identifier: numbers and dates are numeric, all others nominal. The labels are
        its target, unless ``y`` is given.
    k : int
        Minimum number of rows per group.
    model : object, optional
        The model that will be retrained. A scikit-learn estimator, trained or not, is copied and trained on parts of
        the rows. Any other object with ``predict`` (better ``predict_proba`` or ``decision_function``) predicts the
        rows. Without a model a gradient boosting is used.
    guide : {"auto", "hard", "soft", "mondrian"} or float
        The target of the tree. ``"hard"``: the predicted classes, as published (or ``y`` itself, without a model).
        ``"soft"``: logits. A number from 0 to 1: the share of the logits, blended with the attributes.
        ``"mondrian"``: no tree, but Mondrian's cuts. ``"auto"``: one of these, chosen by retraining the model if
        possible, else a blend of 0.7.
    second_opinion : bool
        Average the logits of a retrained model with those of a gradient boosting, which compensates for its errors: on
        Adult the accuracy of a forest then rises by 0.2 points, the mean over five k from 10 to 1,000.
    criterion : {"gini", "entropy"}
        Impurity of predicted classes, for the hard guide.
    nominal : {"auto", "subset", "one-vs-rest"}
        Cuts of nominal attributes: any values against the others, or one value against the others (as in trees on
        one-hot columns). ``"auto"`` is the latter for the hard guide, as published, and else the former.
    cv : int
        Number of folds of the search, if it has a first round.
    scoring : str or callable, optional
        The score that the search maximises, by its name in scikit-learn; accuracy by default, or R².
    constraints : sequence of privacy models
        Constraints besides k; every cut satisfies them.
    recoding : str
        Released values of a group. ``"representative"``: the row nearest to its centre. ``"centroid"``: the row nearest
        to its mean. ``"majority"``: the row nearest to the median among those of the most frequent class, as published.
        ``"auto"``: one of these, chosen by the search if there is one, else the first. ``"medoid"``, ``"median"``,
        ``"mean"``, ``"sample"``, ``"interval"`` and ``"set"`` as for :class:`Mondrian`.
    suppression : float
        Maximum share of rows to suppress, where the others are then released more exactly.
    missing : {"value", "error"}
        Treat missing values as a separate value, or refuse them.
    n_jobs : int, optional
        Number of threads; all cores by default. The result does not depend on it.
    random_state : int, RandomState or None
        Random source of folds, of models without one, and of ``recoding="sample"``. None equals 0 except for the last.

    Attributes
    ----------
    labels_ : int array (n_rows,)
        Group of each fitted row; -1 if it is suppressed.
    groups_ : dataframe
        The released quasi-identifiers, one row per group.
    guide_ : str or float
        The guide in use.
    recoding_ : str
        The recoding in use.
    search_ : list of TriedCandidate
        The candidates of the search, best first; empty without a search.
    schema_ : Schema
        The schema in use.

    Examples
    --------
    >>> from shoal import AccuracyGuided
    >>> from shoal.datasets import make_census
    >>> from shoal.models import make_model
    >>> census = make_census(1000)
    >>> model = make_model("tree", census.schema)
    >>> anonymizer = AccuracyGuided(census.schema, k=20, model=model, guide=0.7, random_state=0)
    >>> released = anonymizer.fit_transform(census.frame)
    >>> int(np.bincount(anonymizer.labels_).min()) >= 20
    True
    """

    _: KW_ONLY
    model: Any = None
    guide: str | float = "auto"
    second_opinion: bool = True
    criterion: str = "gini"
    nominal: str = "auto"
    cv: int = 3
    scoring: Any = None
    recoding: str = "auto"
    n_jobs: int | None = None

    _parameter_constraints: ClassVar[Mapping[str, Constraint]] = {
        "model": having("predict") | None,
        "guide": Choice(("auto", "hard", "soft", "mondrian")) | Real(least=0, most=1),
        "second_opinion": FLAG,
        "criterion": Choice(CRITERIA),
        "nominal": Choice(("auto", *FORMS)),
        "cv": Whole(least=2),
        "scoring": SCORING,
        "recoding": Choice(("auto",)) | Choice(RECODINGS),
        "n_jobs": JOBS,
    }
    _holds_rows = ("_grouping",)

    def findings(self) -> dict[str, Any]:
        """Return the guide in use, and the candidates of the search."""
        check_is_fitted(self, "labels_")
        return {
            "guide": self.guide_,
            "recoding": self.recoding_,
            "scoring": None if self.scoring is None else str(self.scoring),
            "tried": [tried._asdict() for tried in self.search_],
        }

    def _look_at_target(self, job: PartitionInput, y: Any) -> Plan:
        self.search_: list[TriedCandidate] = []
        self._seed = _seed_of(self.random_state)
        known = self._labels(job, y)
        regression = self._regresses(known)
        if regression and known is not None and known.dtype.kind not in "fiub":
            found, where = str(known.flat[0]), "y" if y is not None else "the target"
            raise DataError(f"The model predicts numbers, but {where} has {found!r}: pass numbers, or a classifier.")
        no_training = self.model is None and self._asked_guide() in (0, "hard", "mondrian")
        with nullcontext() if no_training else _while_models_train():
            plan = self._make_plan(job, self._input(job.rows), known, regression)
        self.guide_ = plan.choice
        self.recoding_ = plan.recoding if self.recoding == "auto" else self.recoding
        return plan

    @property
    def recoding_in_use(self) -> str:
        """The recoding in use, which the search may have chosen."""
        return getattr(self, "recoding_", self.recoding)  # type: ignore[no-any-return]

    def _make_plan(self, job: PartitionInput, given: ModelInput, known: np.ndarray | None, regression: bool) -> Plan:
        """Choose the target of the tree."""
        asked = self._asked_guide()
        if asked in (0, "mondrian"):
            classes = None if known is None else guide_from_values(known, regression=regression).classes
            return Plan(Guide(np.zeros((job.table.n_rows, 1)), classes, 0), asked)
        if self.model is None and known is None and len(self.schema_.target) > 1:
            names = ", ".join(attribute.name for attribute in self.schema_.target)
            raise ShoalError(f"The schema has several targets, {names}: pass y as the guide of the groups.")
        if self.model is None and known is None:
            raise ShoalError(
                "AccuracyGuided requires y to be passed, but the target y is None: "
                "pass it, a model, or a schema whose target is a column of the table."
            )
        if asked == "auto" and are_alike(known) and (self.model is None or needs_training(self.model)):
            # Constant labels guide nothing, so only the attributes can be preserved.
            return Plan(Guide(np.zeros((job.table.n_rows, 1)), np.zeros(job.table.n_rows, np.int32), 1), "mondrian")
        if asked == "hard":
            return Plan(self._hard_guide(given, known, regression), asked)
        labels = labels_to_learn_from(known, regression)
        stand_in = make_model("boosting", self.schema_, None, "regression" if regression else "classification")
        model = self.model
        if model is None and labels is not None:
            model, given = stand_in, given._replace(as_array=False, as_factors=True)
        if labels is None and known is not None and needs_training(model):
            self._require_classes(known, regression)
            model = None
        if model is None:
            assert known is not None
            guide = guide_from_values(known, regression=regression)
            return Plan(guide, _settle_for(asked, "hard" if guide.outputs is None else SAFE_CHOICE))
        if labels is None or not can_retrain(model):
            guide = guide_from_model(model, given.take(), soft=True, regression=regression)
            return Plan(guide, _settle_for(asked, SAFE_CHOICE))
        asking = [(model, given)]
        if self.second_opinion and name_of(model) != name_of(stand_in):
            # The model may use some of the columns only; the stand-in uses all.
            asking.append((stand_in, ModelInput(job.rows, self._features_of(job.rows), as_factors=True)))
        guide = guide_out_of_fold(
            asking,
            labels,
            regression=regression,
            folds=FOLDS if job.table.n_rows <= MOST_SEARCH_ROWS else FOLDS_OF_MANY,
            seed=self._seed,
            train=self._train,
            n_jobs=self._n_threads(),
        )
        ahead.wait("trees", "cuts")
        if asked != "auto" or self.model is None:
            return Plan(guide, _settle_for(asked, SAFE_CHOICE))
        return self._search(job, given, guide, labels)

    def _n_threads(self) -> int:
        return -1 if self.n_jobs is None else self.n_jobs

    def _asked_guide(self) -> str | float:
        if isinstance(self.guide, str):
            return 1.0 if self.guide == "soft" else self.guide
        return float(self.guide)

    def _labels(self, job: PartitionInput, y: Any) -> np.ndarray | None:
        """Return the known label of each row: ``y``, or the schema's target if the table has it."""
        if y is not None:
            return read_labels(y, job.table.n_rows)
        return self._target_of(job.rows)

    def _regresses(self, known: np.ndarray | None) -> bool:
        """Return True if numbers are predicted, according to the model, else the schema, else the labels."""
        says = None if self.model is None else predicts_numbers(self.model)
        if says is not None:
            return says
        if len(self.schema_.target) == 1:
            return self.schema_.target[0].kind == "numeric"
        if known is None or known.ndim > 1 or known.dtype.kind not in "fiu":
            return False
        return bool((known == np.rint(known)).all()) and len(np.unique(known)) > MOST_CLASSES

    def _require_classes(self, known: np.ndarray, regression: bool) -> None:
        """Refuse a classifier if the labels are numbers."""
        is_number = known.ndim == 1 and guide_from_values(known, regression=regression).classes is None
        if is_number and not regression:
            raise DataError(
                f"The model, a {name_of(self.model)}, predicts classes, but the labels are numbers such as "
                f"{known[0].item()!r}: pass a regressor, or classes."
            )

    def _features_of(self, frame: Any) -> list[str]:
        return [name for name in features(self.schema_) if name in frame.columns]

    def _input(self, rows: FactoredFrame) -> ModelInput:
        names = self._features_of(rows)
        wanted = getattr(self.model, "feature_names_in_", None)
        if wanted is not None and not self._from_array:
            never_released = {attribute.name for attribute in self.schema_.identifiers}
            for name in wanted:
                if name not in rows.columns:
                    raise ShoalError(f"The model uses a column {name!r} that the table does not have: add it.")
                if name in never_released and can_retrain(self.model) and self._asked_guide() == "auto":
                    raise ShoalError(
                        f"The model was trained on {name!r}, an identifier, which is never released: omit it."
                    )
            names = list(wanted)
        return ModelInput(rows, names, self._from_array, takes_factors(self.model) and not self._from_array)

    def _hard_guide(self, given: ModelInput, known: np.ndarray | None, regression: bool) -> Guide:
        if self.model is None:
            assert known is not None
            return guide_from_values(known, regression=regression)
        model = self.model
        if known is not None and known.ndim == 1 and needs_training(model):
            if len(np.unique(known)) < 2:
                return guide_from_values(known, regression=regression)
            model = self._train(model, given.take(), known)
        return guide_from_model(model, given.take(), soft=False, regression=regression)

    def _train(self, model: Any, seen: Any, y: np.ndarray) -> Any:
        """Train a copy of a model; a missing random state is set to ours."""
        fresh = clone(model)
        unset = {
            name: self._seed
            for name, value in fresh.get_params().items()
            if value is None and (name == "random_state" or name.endswith("__random_state"))
        }
        # Several copies are trained in parallel, so threads within each would only compete.
        try:
            with threadpool_limits(1, user_api="openmp"):
                return fresh.set_params(**unset).fit(seen, y)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"The model, a {name_of(model)}, cannot be trained on this table ({reason(error)}): pass a pipeline "
                "that prepares the columns for it, as shoal.make_model does."
            ) from None

    def _search(self, job: PartitionInput, given: ModelInput, guide: Guide, y: np.ndarray) -> Plan:
        """Try candidates, and choose the one whose release trains the best model."""
        regression = guide.classes is None
        hard = self._hard_guide(given, y, regression)
        codes = y if guide.classes is None else guide.classes
        seeds = np.random.SeedSequence(self._seed).generate_state(2)
        some = sample_rows(len(codes), int(seeds[1]))
        folds: list[Fold] = []
        if job.smallest < ROWS_THAT_HIDE_ONE:
            folds = search_folds(codes, self.cv, regression, int(seeds[0]))
            if not folds:
                return Plan(guide, SAFE_CHOICE)

        def plan_of(candidate: Candidate) -> Plan:
            return Plan(hard if candidate.guide == "hard" else guide, candidate.guide, candidate.recoding)

        def on_part(candidate: Candidate, fold: Fold) -> float:
            known, held_out = fold
            part = part_of(job, known)
            plan = plan_of(candidate)
            released = self._try_release(part, plan._replace(guide=plan.guide.take(known)), codes[known])
            return train_and_score(released, known, held_out)

        def on_all(candidate: Candidate) -> float:
            released = self._try_release(job, plan_of(candidate), codes)
            return train_and_score(None if released is None else released.take(some), some, some)

        def train_and_score(released: FactoredFrame | None, known: np.ndarray, held_out: np.ndarray) -> float:
            if released is None:
                return -np.inf
            try:
                model = self._train(self.model, given.of(released), y[known])
            except DataError:
                # Ranges and sets are texts, which not every model accepts.
                if self.recoding in recodings_that_publish("texts"):
                    return -np.inf
                raise
            return self._score(model, given.take(held_out), y[held_out])

        few = not folds and job.smallest * FEW_GROUPS >= job.table.n_rows
        guides: tuple[str | float, ...] = MORE_CANDIDATES if few else CANDIDATES
        recodings: tuple[str, ...] = MORE_RECODINGS if few else RECODINGS_TRIED
        if self.recoding != "auto":
            recodings = (self.recoding,)
        elif regression:
            recodings = recodings[:-1]
        n_finalists = len(guides) if few else N_FINALISTS
        attempts = Attempts(on_part, on_all)
        self.search_ = search(guides, recodings, folds, attempts, n_finalists, self._n_threads())
        best = self.search_[0]
        if not np.isfinite(best.score):
            return Plan(guide, SAFE_CHOICE)
        return plan_of(Candidate(best.guide, best.recoding))

    def _try_release(self, job: PartitionInput, plan: Plan, classes: np.ndarray) -> FactoredFrame | None:
        """Return the release of rows, or None if there is none; no row is suppressed."""
        try:
            labels = self._group(job.table, job.guard, job.smallest, plan, n_threads=1).labels
        except GuaranteeError:
            return None
        recoded = recode(job.table, labels, plan.recoding, job.members, np.random.default_rng(0), classes)
        return released_rows(job.rows, self.schema_, recoded, labels)

    def _score(self, model: Any, seen: Any, y: np.ndarray) -> float:
        if self.scoring is None:
            return float(model.score(seen, y))
        scorer = get_scorer(self.scoring) if isinstance(self.scoring, str) else self.scoring
        try:
            return float(scorer(model, seen, y))
        except Exception as error:  # it may be any function
            raise ShoalError(
                f"scoring={self.scoring!r} cannot be computed for a {name_of(model)} on this target ({reason(error)}): "
                "choose another, such as accuracy or r2."
            ) from None

    def _partition(self, table: Table, guard: Guard, smallest: int, y: Plan) -> np.ndarray:
        self._grouping = self._group(table, guard, smallest, y, count_threads(self.n_jobs, table.n_rows))
        return self._grouping.labels

    def _group(self, table: Table, guard: Guard, smallest: int, plan: Plan, n_threads: int) -> Grouping:
        """Group the rows according to the plan."""
        if plan.choice == "mondrian":
            return group_alike(table, guard, smallest, self.recoding, n_threads)
        return group_by_guide(table, guard, smallest, plan, self.criterion, self.nominal, n_threads)

    def _cuts_in_use(self) -> Cuts:
        return self._grouping.cuts

    def _place(self, codes: np.ndarray) -> np.ndarray:
        return self._grouping.place(codes)

    def for_parts(self, sample: nw.DataFrame[Any], y: Any) -> Self:
        """Return a copy with a guide and a trained model from a sample; the model predicts all rows."""
        if self.model is None and self._asked_guide() in (0, "hard", "mondrian"):
            return self
        found = clone(self)
        found._summary = self._summary
        found.fit(sample.to_native(), y)
        settled = clone(self).set_params(guide=found.guide_, recoding=found.recoding_)
        known = read_labels(y, len(sample)) if y is not None else found._target_of(sample)
        labels = labels_to_learn_from(known, found._regresses(known))
        asks_a_model = found.guide_ not in (0, "mondrian") and (self.model is None or can_retrain(self.model))
        if labels is None or not asks_a_model:
            return settled  # type: ignore[no-any-return]
        return settled.set_params(model=found._trained(sample, labels))  # type: ignore[no-any-return]

    def _trained(self, sample: nw.DataFrame[Any], labels: np.ndarray) -> Trained:
        """Return the model, and a second one if requested, trained on a sample."""
        regression = self._regresses(labels)
        stand_in = make_model("boosting", self.schema_, self._seed, "regression" if regression else "classification")
        table = FactoredFrame.of(sample)
        asked = [] if self.model is None else [(self.model, self._input(table))]
        if not asked or (self.second_opinion and name_of(self.model) != name_of(stand_in)):
            asked.append((stand_in, ModelInput(table, self._features_of(table), as_factors=True)))
        with _while_models_train():
            models = [self._train(model, given.take(), labels) for model, given in asked]
        return Trained(models, [(given.names, given.as_array) for _, given in asked])

    def _target_of(self, frame: Any) -> np.ndarray | None:
        target = self.schema_.target
        there = len(target) == 1 and target[0].name in frame.columns
        return read_target(frame, self.schema_) if there else None

    def _cuts_coarsely(self, smallest: int) -> Self:
        changes = {"k": smallest, "suppression": 0.0, "recoding": "representative"}
        return clone(self).set_params(**changes)  # type: ignore[no-any-return]

    def _codes_left(self, attribute: int) -> np.ndarray:
        return self._grouping.codes_left(attribute)

    def _classes_of(self, job: PartitionInput, y: Any, target: Plan | None = None) -> np.ndarray | None:
        if not needs(self.recoding_in_use, "classes"):
            return None
        if y is None and target is not None and target.guide.classes is not None:
            return target.guide.classes
        if self.recoding == "auto" and y is None and self._labels(job, None) is None:
            return None
        return super()._classes_of(job, y, target)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


@contextmanager
def _while_models_train() -> Iterator[None]:
    """Suppress warnings of convergence, and let each model compute in one thread.

    Models are trained in threads, and a thread would restore process-wide settings of another one.
    """
    with warnings.catch_warnings(), threadpool_limits(1, user_api="blas"):
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def _seed_of(random_state: Any) -> int:
    if random_state is None or isinstance(random_state, numbers.Integral):
        return int(random_state or 0)
    return int(random_state.randint(2**31))


def _settle_for(asked: str | float, choice: str | float) -> str | float:
    return choice if asked == "auto" else asked
