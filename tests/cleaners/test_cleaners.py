"""Cleaned rows: the outputs move by no more than they may, and as much goes as can."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from naive.cleaning import clean, knapsack, nearest_between
from promises import EXAMPLES
from shoal import NullSpaceCleaner, TargetedNullSpaceCleaner, make_model
from shoal.cleaners.laplace import LaplaceNoise
from shoal.cleaners.targeted import _rotate
from shoal.datasets import make_census
from shoal.errors import DataError, GuaranteeError, GuaranteeWarning, ShoalError

ROWS_EACH = 40
"""Rows of a random problem; 300 problems of each kind and mode make far more than ten thousand."""


@st.composite
def problems(draw, condition=6):
    """A matrix, rows and budgets: of any rank, well or ill conditioned, with features that are constant or unused."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_features, n_outputs = draw(st.integers(1, 12)), draw(st.integers(1, 6))
    rank = draw(st.integers(0, min(n_features, n_outputs)))
    left, right = random.normal(size=(n_features, rank)), random.normal(size=(rank, n_outputs))
    matrix = left * 10.0 ** random.uniform(-draw(st.integers(0, condition)), 0, rank) @ right
    matrix *= 10.0 ** draw(st.integers(-3, 3))
    X = random.normal(size=(ROWS_EACH, n_features)) * 10.0 ** random.uniform(-2, 3, n_features)
    if draw(st.booleans()):
        X[:, random.integers(n_features)] = draw(st.sampled_from([0.0, 1.0, -7.5, 1e4]))
    if draw(st.booleans()):
        matrix[random.integers(n_features)] = 0.0
    if draw(st.booleans()):
        X[random.integers(ROWS_EACH)] = 0.0
    budgets = 10.0 ** random.uniform(-4, 4, ROWS_EACH)
    budgets[0] = draw(st.sampled_from([0.0, 0.01]))
    return matrix, X, budgets, random


def quietly(cleaner, *data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuaranteeWarning)
        return cleaner.fit(*data)


def errors(X, cleaned, matrix):
    return ((cleaned.astype(float) - X.astype(float)) @ matrix) ** 2 @ np.ones(matrix.shape[1])


def rounding(X, matrix, unit=1e-13):
    """What outputs can be off by in floating point, squared: budgets below it mean nothing."""
    return (unit * np.linalg.norm(matrix) * (np.linalg.norm(X, axis=1) + np.linalg.norm(X))) ** 2


@pytest.mark.parametrize("mode", ["knapsack", "energy"])
@pytest.mark.parametrize("reference", ["zero", "mean"])
@settings(max_examples=EXAMPLES)
@given(problem=problems())
def test_outputs_move_by_no_more_than_the_budget(mode, reference, problem):
    matrix, X, budgets, _ = problem
    cleaner = quietly(NullSpaceCleaner(matrix, 0.5, mode=mode, reference=reference), X)
    moved = errors(X, cleaner.transform(X, epsilon=budgets), matrix)
    assert (moved <= np.maximum(budgets * (1 + 1e-9), rounding(X, matrix))).all()


def test_ten_thousand_problems_keep_their_budgets():
    """Many small problems, none of them chosen: of any rank and size, with constant and unused features."""
    random = np.random.default_rng(0)
    for i in range(10_000):
        n_features, n_outputs = random.integers(1, 9), random.integers(1, 5)
        rank = random.integers(0, min(n_features, n_outputs) + 1)
        matrix = random.normal(size=(n_features, rank)) * 10.0 ** random.uniform(-4, 0, rank)
        matrix = matrix @ random.normal(size=(rank, n_outputs)) * 10.0 ** random.uniform(-3, 3)
        X = random.normal(size=(8, n_features)) * 10.0 ** random.uniform(-2, 3, n_features)
        X[:, random.integers(n_features)] *= random.integers(0, 2)
        budgets = 10.0 ** random.uniform(-4, 4, 8)
        if i % 2:
            cleaner = NullSpaceCleaner(matrix, mode=("knapsack", "energy")[i % 4 // 2])
        else:
            cleaner = TargetedNullSpaceCleaner(matrix, random.normal(size=(n_features, random.integers(1, 4))))
        moved = errors(X, cleaner.fit(X).transform(X, epsilon=budgets), matrix)
        assert (moved <= np.maximum(budgets * (1 + 1e-9), rounding(X, matrix))).all()


@settings(max_examples=EXAMPLES)
@given(problem=problems(), n_secrets=st.integers(1, 4), learn_on=st.sampled_from(["outputs", "features"]))
def test_outputs_move_by_no_more_than_the_budget_when_a_secret_is_targeted(problem, n_secrets, learn_on):
    matrix, X, budgets, random = problem
    secret = X[:, :1] + random.normal(size=(ROWS_EACH, n_secrets))
    cleaner = quietly(TargetedNullSpaceCleaner(matrix, epsilon=0.5, learn_on=learn_on), X, secret)
    moved = errors(X, cleaner.transform(X, epsilon=budgets), matrix)
    assert (moved <= np.maximum(budgets * (1 + 1e-9), rounding(X, matrix))).all()


@settings(max_examples=EXAMPLES)
@given(problem=problems())
def test_budgets_hold_for_single_precision_too(problem):
    matrix, X, budgets, random = problem
    X = X.astype(np.float32)
    for cleaner in (
        NullSpaceCleaner(matrix, 0.5),
        TargetedNullSpaceCleaner(matrix, random.normal(size=(X.shape[1], 2)), 0.5),
    ):
        cleaned = quietly(cleaner, X).transform(X, epsilon=budgets)
        assert cleaned.dtype == np.float32
        tolerated = rounding(X.astype(float), matrix, unit=1e-6)
        assert (errors(X, cleaned, matrix) <= np.maximum(budgets * (1 + 1e-9), tolerated)).all()


@settings(max_examples=EXAMPLES)
@given(problem=problems(), keep=st.integers(0, 2))
def test_without_a_budget_outputs_stay(problem, keep):
    matrix, X, _, random = problem
    kept = list(range(min(keep, X.shape[1] - 1)))
    given = random.normal(size=(X.shape[1], 2))
    for cleaner in (
        NullSpaceCleaner(matrix, 5.0, mode="exact", keep=kept),
        NullSpaceCleaner(matrix, 0.0, keep=kept),
        TargetedNullSpaceCleaner(matrix, given, 5.0, mode="exact", keep=kept),
    ):
        cleaned = quietly(cleaner, X).transform(X)
        scale = np.abs(X) @ np.abs(matrix) + np.abs(X.mean(axis=0)) @ np.abs(matrix)
        assert (np.abs((cleaned - X) @ matrix) <= 1e-9 * scale + 1e-300).all()
        assert (cleaned[:, kept] == X[:, kept]).all()


@settings(max_examples=EXAMPLES)
@given(problem=problems())
def test_what_is_left_tells_nothing_but_the_outputs(problem):
    """Two rows of the same outputs are cleaned to the same row."""
    matrix, X, budgets, random = problem
    values, vectors = np.linalg.eigh(matrix @ matrix.T)
    hidden = vectors[:, values <= max(values.max(), 1e-300) * 1e-12]
    other = X + random.normal(size=(ROWS_EACH, hidden.shape[1])) * np.abs(X).mean() @ hidden.T
    cleaner = quietly(NullSpaceCleaner(matrix, 0.5, reference="zero"))
    one, two = (cleaner.transform(rows, epsilon=budgets) for rows in (X, other))
    # A component that costs just what is left may go in one and stay in part in the other: compare by what it costs.
    assert np.allclose((one - two) @ matrix, 0, atol=1e-5 * np.linalg.norm(matrix) * (np.linalg.norm(X) + 1))


@pytest.mark.parametrize("mode", ["knapsack", "energy"])
@settings(max_examples=EXAMPLES)
@given(problem=problems(condition=0))
def test_it_is_the_algorithm_of_the_paper(mode, problem):
    """On matrices that are not badly conditioned, because the twin forms A Aᵀ."""
    matrix, X, budgets, _ = problem
    sizes = np.linalg.svd(matrix, compute_uv=False)
    sizes = sizes[sizes > sizes[0] * 1e-12]
    if len(sizes) == 0 or sizes[-1] < 1e-3 * sizes[0] or (sizes[1:] / sizes[:-1] > 0.999).any():
        return
    cleaned = quietly(NullSpaceCleaner(matrix, 0.5, mode=mode, reference="zero")).transform(X, epsilon=budgets)
    for x, found, budget in zip(X, cleaned, budgets, strict=True):
        expected, gains, costs, shares = clean(x, matrix, budget, mode)
        assert np.allclose(found, expected, atol=1e-6 * (1 + np.abs(x).max()))
        spent = ((x - found) @ matrix) ** 2
        assert np.isclose(spent.sum(), shares**2 @ costs, rtol=1e-6, atol=1e-9 * costs.sum())


@settings(max_examples=EXAMPLES)
@given(
    gains=st.lists(st.floats(0, 10), min_size=1, max_size=6),
    costs=st.lists(st.floats(1e-3, 10), min_size=6, max_size=6),
    budget=st.floats(0, 20),
)
def test_the_knapsack_is_the_optimum(gains, costs, budget):
    """In the squares of the shares it is a linear program."""
    gains, costs = np.array(gains), np.array(costs[: len(gains)])
    shares = knapsack(gains, costs, budget)
    best = linprog(-gains, A_ub=[costs], b_ub=[budget], bounds=(0, 1))
    assert shares**2 @ costs <= budget + 1e-9
    assert np.isclose(shares**2 @ gains, -best.fun, atol=1e-7)


@settings(max_examples=EXAMPLES)
@given(problem=problems(), n_secrets=st.integers(1, 4))
def test_a_target_is_hidden_as_well_as_can_be(problem, n_secrets):
    """The privacy error that the coordinates stand for is the optimum of the knapsack, for several secrets."""
    matrix, X, budgets, random = problem
    secret = random.normal(size=(X.shape[1], n_secrets))
    cleaner = quietly(TargetedNullSpaceCleaner(matrix, secret, 0.5, unknown=0.0, reference="zero"))
    if cleaner.rank_ == 0:
        return
    coding, view = cleaner._coding, cleaner._view
    # What of the secret nobody can hide who sends these outputs: the least of it among all rows that have them.
    own, left = X @ coding.encoder, cleaner.transform(X, epsilon=budgets) @ coding.encoder
    basis = np.linalg.qr(view.basis / view.scale[:, None])[0]
    outside = np.eye(X.shape[1]) - basis @ basis.T
    remaining = np.eye(n_secrets) - (secret.T @ outside) @ np.linalg.pinv(secret.T @ outside, rcond=1e-9)
    form = remaining @ secret.T @ coding.decoder.T
    gram = form.T @ form
    lengths = np.linalg.norm(coding.decoder, axis=1) * np.linalg.norm(secret)
    if view.sizes[-1] < 1e-4 * view.sizes[0] or np.diag(gram).max() < 1e-9 * lengths.max() ** 2:
        return  # too badly conditioned to judge so, or all of the secret can be left out anyway
    assert np.allclose(gram - np.diag(np.diag(gram)), 0, atol=1e-6 * max(np.abs(gram).max(), 1e-300))
    for before, after, budget in zip(own[:5], left[:5], budgets[:5], strict=True):
        costs, gains = before**2, np.diag(gram) * before**2
        gone = (1 - after / np.where(before == 0, 1, before)) ** 2
        best = knapsack(gains, costs, budget) ** 2 @ gains  # which is the optimum: see above
        assert np.isclose(gone @ gains, best, rtol=1e-4, atol=1e-4 * gains.max())


def test_the_printed_second_algorithm_agrees_where_it_can_be_run():
    """With as many secrets as features everything is invertible, and the stable form is the printed one."""
    from scipy.linalg import eigh

    random = np.random.default_rng(0)
    wanted, secret = random.normal(size=(4, 3)), random.normal(size=(4, 4))
    rotation = _rotate(*_view(wanted), secret, 0.0)
    ratios, _ = eigh(wanted @ wanted.T, secret @ secret.T)
    basis, sizes = _view(wanted)
    encoder = basis * sizes @ rotation
    # The generalised eigenvalue of a direction is its cost by its gain; gains are those of the least secret rows.
    left = np.linalg.pinv(encoder)
    outside = np.eye(4) - basis @ basis.T
    hidden = np.eye(4) - (secret.T @ outside) @ np.linalg.pinv(secret.T @ outside, rcond=1e-9)
    gains = ((hidden @ secret.T @ left.T) ** 2).sum(axis=0)
    assert np.allclose(1 / gains, ratios[ratios > 1e-9], rtol=1e-6)


def _view(matrix):
    basis, sizes, _ = np.linalg.svd(matrix, full_matrices=False)
    return basis, sizes


def test_the_toy_example_of_the_paper():
    X = np.array([[3.0, 1], [4, 2], [5, 1], [6, 5]])
    for cleaner in (
        NullSpaceCleaner([1, -1], 0.0, reference="zero"),
        TargetedNullSpaceCleaner([1, -1], [1, 2], 0.0, reference="zero"),
    ):
        assert np.allclose(cleaner.fit().transform(X), [[1, -1], [1, -1], [2, -2], [0.5, -0.5]])


def test_more_budget_hides_more_against_who_learns_again():
    random = np.random.default_rng(1)
    X = random.normal(size=(4000, 8))
    matrix = random.normal(size=(8, 4))
    secret = X @ random.normal(size=(8, 2)) + 0.1 * random.normal(size=(4000, 2))
    left = []
    for epsilon in (0.0, 0.1, 1.0, 10.0):
        cleaner = quietly(TargetedNullSpaceCleaner(matrix, epsilon=epsilon), X, secret)
        cleaned = cleaner.transform(X)
        left.append(LinearRegression().fit(cleaned[:3000], secret[:3000]).score(cleaned[3000:], secret[3000:]))
    assert left[0] > left[1] > left[2] > left[3]


def test_learning_on_outputs_hides_more_than_learning_on_features():
    """Against an adversary who learns again, on rows whose features are correlated."""
    random = np.random.default_rng(2)
    gains = []
    for _ in range(10):
        X = random.normal(size=(3000, 12)) @ random.normal(size=(12, 12))
        matrix, secret = random.normal(size=(12, 5)) / 10, X @ random.normal(size=12)
        scores = []
        for learn_on in ("outputs", "features"):
            cleaner = TargetedNullSpaceCleaner(matrix, epsilon=0.5, learn_on=learn_on).fit(X, secret)
            cleaned = cleaner.transform(X)
            scores.append(LinearRegression().fit(cleaned[:2000], secret[:2000]).score(cleaned[2000:], secret[2000:]))
        gains.append(scores[1] - scores[0])
    assert np.mean(gains) > 0.02


@st.composite
def bounded_problems(draw):
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_features, n_outputs = draw(st.integers(2, 7)), draw(st.integers(1, 3))
    X = random.uniform(-1, 1, size=(20, n_features))
    return random.normal(size=(n_features, n_outputs)), X, draw(st.sampled_from([0.0, 0.05, 1.0])), random


@settings(max_examples=EXAMPLES)
@given(problem=bounded_problems())
def test_rows_within_bounds_are_cleaned_within_them(problem):
    matrix, X, epsilon, _ = problem
    low, high = X.min(axis=0), X.max(axis=0)
    for cleaner in (
        NullSpaceCleaner(matrix, epsilon, bounds="seen"),
        TargetedNullSpaceCleaner(matrix, np.ones(X.shape[1]), epsilon, bounds=(low, high)),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GuaranteeWarning)  # of rows in a corner of the bounds
            cleaned = cleaner.fit(X).transform(X)
        assert (cleaned >= low).all()
        assert (cleaned <= high).all()
        assert (errors(X, cleaned, matrix) <= epsilon * (1 + 1e-9) + 1e-18).all()


@settings(max_examples=EXAMPLES // 5 + 1)
@given(problem=bounded_problems())
def test_rows_within_bounds_are_the_nearest_to_the_reference(problem):
    matrix, X, _, _ = problem
    cleaner = quietly(NullSpaceCleaner(matrix, 0.0, bounds="seen"), X)
    cleaned = cleaner.transform(X)
    bounds, center = cleaner._bounds, cleaner.reference_
    plain = quietly(NullSpaceCleaner(matrix, 0.0), X).transform(X)
    settled = ((plain < bounds.low) | (plain > bounds.high)).any(axis=1)
    for x, found in zip(X[settled], cleaned[settled], strict=True):
        spread = cleaner._bounded_view.scale
        expected = nearest_between(x, matrix, center, spread, bounds.low, bounds.high)
        if expected is None:
            continue
        distances = [(((row - center) / spread) ** 2).sum() for row in (found, expected)]
        assert distances[0] <= distances[1] * (1 + 1e-5) + 1e-8


def test_a_row_outside_the_bounds_is_named():
    matrix, X = np.array([1.0, 1.0]), np.array([[0.5, 0.5], [5.0, 5.0]])
    with pytest.raises(GuaranteeError, match="Row 1 cannot be cleaned within the bounds"):
        NullSpaceCleaner(matrix, 0.01, bounds=(0.0, 1.0), reference="zero").fit().transform(X)


def test_bounds_of_some_features_by_name():
    X = pl.DataFrame({"age": [20.0, 80.0, 50.0], "income": [1.0, 9.0, 4.0], "size": [1.0, 2.0, 9.0]})
    cleaner = NullSpaceCleaner([0.1, 1.0, 0.5], 0.0, bounds={"age": (18, 90)}).fit(X)
    cleaned = cleaner.transform(X)
    assert cleaned["age"].min() >= 18
    assert np.allclose(cleaner.utility_errors(X, cleaned), 0, atol=1e-18)
    with pytest.raises(ShoalError, match="no feature 'weight' to bound"):
        NullSpaceCleaner([0.1, 1.0, 0.5], bounds={"weight": (0, 1)}).fit(X)
    with pytest.raises(ShoalError, match="bounds of 'age', 90 and 18, leave no value"):
        NullSpaceCleaner([0.1, 1.0, 0.5], bounds={"age": (90, 18)}).fit(X)


@pytest.mark.parametrize("library", ["polars", "pandas", "pyarrow"])
def test_tables_keep_their_library_columns_and_labels(library):
    raw = {"b": [1.0, 2.0, 3.0], "a": [4, 5, 7], "c": [True, False, True]}
    frame = {
        "polars": lambda: pl.DataFrame(raw),
        "pandas": lambda: pd.DataFrame(raw, index=[7, 3, 7]),
        "pyarrow": lambda: pa.table(raw),
    }[library]()
    train = pd.DataFrame({"a": [1.0, 2, 3, 5], "b": [0.0, 1, 0, 2], "c": [0.0, 1, 1, 0]})
    model = LinearRegression().fit(train, [1.0, 2, 3, 4])
    cleaner = NullSpaceCleaner(model, 0.0, keep=["c"]).fit(train)
    cleaned = cleaner.transform(frame)
    assert type(cleaned) is type(frame)
    names = cleaned.column_names if library == "pyarrow" else list(cleaned.columns)
    assert names == ["b", "a", "c"]
    if library == "pandas":
        assert cleaned.index.tolist() == [7, 3, 7]
        assert np.allclose(model.predict(cleaned[["a", "b", "c"]]), model.predict(frame[["a", "b", "c"]]))
    assert np.asarray(cleaned["c"]).tolist() == raw["c"]
    assert np.allclose(cleaner.utility_errors(frame, cleaned), 0, atol=1e-20)


def test_features_that_are_encoded_are_kept_as_they_are():
    """A pipeline with a one-hot encoder looks at its column in another way: what is cleaned are the numbers."""
    census = make_census(800)
    model = make_model("logistic", census.schema).fit(census.frame, census.frame["income"].to_numpy())
    names = [name for name in census.frame.columns if name in model[0].columns]
    rows = census.frame.select(names).drop_nulls()
    cleaner = NullSpaceCleaner(model, 0.0).fit(rows)
    cleaned = cleaner.transform(rows)
    assert np.allclose(model.decision_function(cleaned), model.decision_function(rows), atol=1e-9)
    kept = [name for name, stays in zip(names, cleaner.kept_, strict=True) if stays]
    assert "education" in kept
    assert cleaned.select(kept).equals(rows.select(kept))
    assert cleaner.rank_ == 1
    assert (~cleaner.kept_).sum() > 1


def test_a_whole_pipeline_with_scaler_is_cleaned_in_raw_features():
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 5)) * [1, 10, 100, 0.1, 1] + [5, -3, 0, 0, 1000]
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, X[:, 0] + X[:, 1] > 2)
    cleaned = NullSpaceCleaner(model, mode="exact").fit(X).transform(X)
    assert np.allclose(model.decision_function(cleaned), model.decision_function(X), rtol=1e-9)
    assert np.linalg.matrix_rank(cleaned - cleaned.mean(axis=0), tol=1e-6) == 1
    budget = NullSpaceCleaner(model, 0.04).fit(X).transform(X)
    moved = np.abs(model.decision_function(budget) - model.decision_function(X))
    assert moved.max() <= 0.2 * (1 + 1e-9)
    assert np.isclose(moved.max(), 0.2)


@parametrize_with_checks(
    [
        NullSpaceCleaner(PCA(1)),
        NullSpaceCleaner(Ridge(), mode="energy"),
        TargetedNullSpaceCleaner(PCA(1)),
        LaplaceNoise(PCA(1), random_state=0),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_it_is_pickled_cloned_and_put_into_pipelines():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(100, 4)), random.normal(size=100)
    cleaner = TargetedNullSpaceCleaner(np.eye(4)[:, :2], epsilon=0.3).fit(X, y)
    again = pickle.loads(pickle.dumps(cleaner))
    assert (again.transform(X) == cleaner.transform(X)).all()
    assert (clone(cleaner).fit(X, y).transform(X) == cleaner.transform(X)).all()
    assert make_pipeline(NullSpaceCleaner(Ridge()), Ridge()).fit(X, y).score(X, y) > 0
    assert cleaner.set_output(transform="pandas").transform(X).shape == (100, 4)


def test_rows_are_cleaned_alike_whether_alone_or_with_others(monkeypatch):
    from shoal.cleaners import _base

    random = np.random.default_rng(0)
    X, matrix = random.normal(size=(500, 6)), random.normal(size=(6, 3))
    cleaner = NullSpaceCleaner(matrix, 0.5).fit(X)
    together = cleaner.transform(X)
    assert np.allclose([cleaner.transform(X[i : i + 1])[0] for i in range(0, 500, 50)], together[::50], atol=1e-12)
    monkeypatch.setattr(_base, "CELLS_AT_ONCE", 60)
    assert np.allclose(cleaner.transform(X), together, atol=1e-12)


def test_noise_moves_outputs_by_the_budget_on_average():
    random = np.random.default_rng(0)
    X, matrix = random.normal(size=(20_000, 6)), random.normal(size=(6, 3))
    noise = LaplaceNoise(matrix, 0.3, random_state=0, keep=[2]).fit(X)
    noisy = noise.transform(X)
    assert abs(noise.utility_errors(X, noisy).mean() / 0.3 - 1) < 0.05
    assert (noisy[:, 2] == X[:, 2]).all()
    assert (noise.transform(X) == noisy).all()
    assert (noise.transform(X, epsilon=0.0) == X).all()


@pytest.mark.parametrize("width", [2, 4, 6, 8])
def test_features_of_very_different_size_keep_every_promise(width):
    """From thousandths to millions in one row: outputs stay, budgets hold, rows within bounds are cleaned within."""
    random = np.random.default_rng(width)
    for _ in range(30):
        scales = 10.0 ** random.uniform(-width, width, 6)
        X, matrix = random.normal(size=(50, 6)) * scales, random.normal(size=(6, 4)) / scales[:, None]
        secret = random.normal(size=(6, 2)) / scales[:, None]
        for cleaner in (
            NullSpaceCleaner(matrix, mode="exact"),
            TargetedNullSpaceCleaner(matrix, secret, mode="exact"),
            NullSpaceCleaner(matrix, mode="exact", bounds="seen"),
        ):
            assert np.abs((quietly(cleaner, X).transform(X) - X) @ matrix).max() < 1e-10
        for cleaner in (NullSpaceCleaner(matrix, 0.01), NullSpaceCleaner(matrix, 0.01, bounds="seen")):
            moved = errors(X, quietly(cleaner, X).transform(X), matrix)
            assert (moved <= 0.01 * (1 + 1e-9)).all()
            assert moved.max() > 0.0099


def test_rows_are_not_sent_raw_because_features_differ_in_size():
    random = np.random.default_rng(292)
    scales = 10.0 ** random.integers(-3, 4, 4)
    X, matrix = random.normal(size=(200, 4)) * scales, random.normal(size=(4, 2)) / scales[:, None]
    assert not (NullSpaceCleaner(matrix, mode="exact", bounds="seen").fit(X).transform(X) == X).all(axis=1).any()


def test_wide_bounds_do_not_widen_the_budget():
    X = np.random.default_rng(0).random((200, 3))
    cleaner = NullSpaceCleaner([1.0, 2.0, -1.0], 1e-6, bounds={0: (0, 1), 1: (0, 1), 2: (-1e12, 1e12)}).fit(X)
    assert cleaner.utility_errors(X, cleaner.transform(X)).max() <= 1e-6 * (1 + 1e-9)


def test_single_precision_keeps_budgets_where_features_differ_in_size():
    """What rounding moves was judged by raw features, and taken for that of scaled ones."""
    random = np.random.default_rng(7)
    X = (random.normal(size=(20_000, 2)) * [200.0, 0.05]).astype(np.float32)
    matrix, budgets = np.array([[0.0, 0.0], [1.2, -1.2]]), 10.0 ** random.uniform(-4, 0, len(X))
    for cleaner in (NullSpaceCleaner(matrix), TargetedNullSpaceCleaner(matrix, random.normal(size=(2, 1)))):
        cleaned = cleaner.fit(X).transform(X, epsilon=budgets)
        assert (errors(X, cleaned, matrix) <= budgets * (1 + 1e-9)).all()


def test_single_precision_stays_within_bounds():
    X = np.random.default_rng(0).random((100, 3)).astype(np.float32) * np.float32(0.0999)
    cleaned = NullSpaceCleaner([1.0, 2.0, 3.0], bounds=(0, 0.1)).fit(X).transform(X)
    assert cleaned.astype(float).max() <= 0.1


def test_columns_go_by_name_whatever_is_around_the_model():
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(120, 3)), columns=list("abc"))
    y = (frame["a"] - 2 * frame["b"] > 0).to_numpy()
    other = frame[["c", "b", "a"]]
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(frame, y)
    for predictor in (model, GridSearchCV(model, {}).fit(frame, y), Pipeline([("inner", model)])):
        for rows in (frame, frame.to_numpy()):
            cleaned = NullSpaceCleaner(predictor, mode="exact").fit(rows).transform(other)
            assert np.allclose(predictor.predict_proba(cleaned[["a", "b", "c"]]), predictor.predict_proba(frame))
    kept = NullSpaceCleaner(model, keep=["a"]).fit(frame.to_numpy())
    assert kept.kept_.tolist() == [True, False, False]
    secret = Ridge().fit(other, frame["c"])
    targeted = TargetedNullSpaceCleaner(model, secret).fit(frame)
    assert np.abs(targeted.confidential_[:, 0]).argmax() == 2


def test_features_to_keep_may_be_marked():
    cleaner = NullSpaceCleaner([1.0, 2.0, 3.0], keep=[True, False, False]).fit()
    assert cleaner.kept_.tolist() == [True, False, False]
    assert NullSpaceCleaner([1.0, 2.0], keep=None).fit().kept_.sum() == 0


def test_fit_twice_is_fit_once():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [0.0, 1.0]})
    cleaner = NullSpaceCleaner([1.0, 2.0]).fit(frame)
    assert not hasattr(cleaner.fit(), "feature_names_in_")


def test_a_predictor_that_is_trained_here_can_be_asked():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(50, 3)), random.normal(size=50)
    cleaner = NullSpaceCleaner(Ridge(), mode="exact").fit(X, y)
    assert np.allclose(cleaner.predictor_.predict(cleaner.transform(X)), cleaner.predictor_.predict(X))


def test_secrets_of_any_kind():
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 3))
    names = np.where(X[:, 0] > 0, "f", "m")
    table = pl.DataFrame({"sex": names, "weight": X[:, 1]})
    assert TargetedNullSpaceCleaner(np.eye(3)[:, :2]).fit(X, table).confidential_.shape == (3, 3)
    classes = TargetedNullSpaceCleaner(np.eye(3)[:, :2], LogisticRegression()).fit(X, names)
    assert classes.confidential_.shape == (3, 1)
    with pytest.raises(ShoalError, match="A classifier learns one secret"):
        TargetedNullSpaceCleaner(np.eye(3)[:, :2], LogisticRegression()).fit(X, table)
    with pytest.raises(DataError, match="secret is missing"):
        TargetedNullSpaceCleaner(np.eye(3)[:, :2]).fit(X, np.array([None, *names[1:]], object))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda X: NullSpaceCleaner(np.ones(3), keep=[1.5]).fit(X), "There is no feature 1.5"),
        (lambda X: NullSpaceCleaner(np.ones(3), keep=[True]).fit(X), "keep has 1 marks for 3 features"),
        (lambda X: NullSpaceCleaner(np.ones(3), reference=[1, 2]).fit(X), "reference must be a row of 3 numbers"),
        (lambda X: NullSpaceCleaner(np.ones(3), reference={0: "x"}).fit(X), "reference must be a row of 3 numbers"),
        (lambda X: NullSpaceCleaner(np.ones(3), bounds=([1, 2], [3, 4])).fit(X), "for all features or for each one"),
        (lambda X: NullSpaceCleaner(np.ones(3), bounds={0: ([0, 1], [2, 3])}).fit(X), "bounds must be two numbers"),
        (lambda X: NullSpaceCleaner().fit(X), "predictor must be a model, or a matrix"),
        (lambda X: NullSpaceCleaner(np.ones(3), keep=[0, 1, 2]).fit(X), "All features are kept"),
        (lambda X: NullSpaceCleaner(np.ones(3), keep=[3]).fit(X), "There is no feature 3"),
        (lambda X: NullSpaceCleaner(np.ones(3), keep=["a"]).fit(X), "There is no feature 'a'"),
        (lambda X: NullSpaceCleaner(np.ones(3), reference="median").fit(X), "reference must be .*, got 'median'"),
        (lambda X: NullSpaceCleaner(np.ones(3), reference="mean").fit(), "reference='mean' needs rows"),
        (lambda X: NullSpaceCleaner(np.ones(3)).fit(X[:1]), "A single row was given to fit"),
        (lambda X: NullSpaceCleaner(np.ones(4)).fit(X), "X has 3 features, but the predictor uses 4"),
        (lambda X: NullSpaceCleaner(Ridge()).fit(), "not trained yet"),
        (lambda X: NullSpaceCleaner(np.ones(3), bounds="tight").fit(X), "bounds must be 'seen', .*, got 'tight'"),
        (lambda X: NullSpaceCleaner(np.ones(3), bounds="seen").fit(), "bounds='seen' needs rows"),
        (lambda X: NullSpaceCleaner(np.ones(3), bounds=3).fit(X), "bounds must be two numbers, got 3"),
        (lambda X: NullSpaceCleaner(np.ones(3)).fit(X).transform(X, epsilon=[1, 2]), "epsilon has the shape"),
        (lambda X: NullSpaceCleaner(np.ones(3)).fit(X).transform(X * np.nan), "contains NaN"),
        (lambda X: NullSpaceCleaner(np.ones(3)).fit(X).utility_errors(X, X[:2]), "pass the same rows"),
        (lambda X: TargetedNullSpaceCleaner(np.ones(3)).fit(X), "pass rows and confidential labels"),
        (lambda X: TargetedNullSpaceCleaner(np.ones(3)).fit(X, [1, 2]), r"shape \(2,\) for 4 rows"),
        (lambda X: TargetedNullSpaceCleaner(np.ones(3)).fit(X, [1, 2, np.nan, 3]), "secret is missing"),
        (lambda X: TargetedNullSpaceCleaner(np.ones(3), np.ones(2)).fit(X), "uses 2 features"),
        (lambda X: TargetedNullSpaceCleaner(Ridge()).fit(X, [1, 2, 3, 4]), "the labels here are the secret"),
    ],
)  # fmt: skip
def test_bad_input_gets_one_sentence(make, sentence):
    X = np.array([[1.0, 2, 3], [4, 5, 7], [7, 9, 8], [0, 1, 0]])
    with pytest.raises(ValueError, match=sentence):
        make(X)


def test_tables_that_do_not_fit_get_one_sentence():
    X = pl.DataFrame({"a": [1.0, 2.0, 4.0], "b": [1.0, 3.0, 3.0]})
    cleaner = NullSpaceCleaner([1.0, 2.0]).fit(X)
    with pytest.raises(DataError, match="Column 'b' is not in the table"):
        cleaner.transform(X.drop("b"))
    with pytest.raises(DataError, match="does not use the column 'id', which would be sent unchanged"):
        cleaner.transform(X.with_columns(id=1))
    with pytest.raises(DataError, match="Column 'b' has 1 missing values, the first in row 1"):
        cleaner.transform(pl.DataFrame({"a": [1.0, 2.0], "b": [1.0, None]}))
    with pytest.raises(DataError, match="Column 'b' has an infinite value in row 0"):
        cleaner.transform(pl.DataFrame({"a": [1.0], "b": [np.inf]}))
    with pytest.raises(DataError, match="Column 'b' holds texts"):
        cleaner.transform(pl.DataFrame({"a": [1.0], "b": ["x"]}))
    with pytest.raises(NotFittedError):
        NullSpaceCleaner([1.0, 2.0]).transform(X)


def test_nothing_needless_is_said():
    with pytest.warns(GuaranteeWarning, match="it needs every component"):
        NullSpaceCleaner(np.eye(3), 0.0).fit()


def test_secrets_may_be_classes():
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 4))
    names = np.where(X[:, 0] > 0.5, "ill", np.where(X[:, 0] < -0.5, "well", "unknown"))
    cleaner = TargetedNullSpaceCleaner(np.eye(4)[:, :2], epsilon=0.2).fit(X, names)
    assert cleaner.confidential_.shape == (4, 3)
    assert (cleaner.utility_errors(X, cleaner.transform(X)) <= 0.2 * (1 + 1e-9)).all()
