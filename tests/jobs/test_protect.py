"""Protecting a model: the release is checked, the comparison is honest, and the page says what was found."""

import math
import re

import numpy as np
import polars as pl
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from pages import Page
from shoal import Attribute, KAnonymity, KMap, LDiversity, Mondrian, Schema, check, protect
from shoal.anonymizers.accuracy_guided import CANDIDATES
from shoal.data.frames import convert
from shoal.datasets import make_census
from shoal.errors import GuaranteeError, ShoalError
from shoal.evaluation.comparison import Comparison, Interval, _accuracies, _r2s, show_change, show_score, verdict
from shoal.jobs.protect import describe_guide
from shoal.models import features, make_model, read_target

FRAME, SCHEMA = make_census(600, seed=0)
QUASI = [attribute.name for attribute in SCHEMA.quasi]
NUMERIC = Schema(
    Attribute(a.name, {"hours-per-week": "target", "income": "other"}.get(a.name, a.role), a.kind) for a in SCHEMA
)
MANY = SCHEMA.with_roles(target=["condition"], other=["income"])


def protected(frame=FRAME, schema=SCHEMA, model="tree", k=10, **options):
    """A protection whose groups follow a fixed guide, which needs no search."""
    return protect(frame, schema, model, k, **({"guide": 0.7} | options))


@pytest.fixture(scope="module")
def found():
    return protected()


# What comes out


def test_both_models_are_scored_on_rows_that_neither_has_seen(found):
    comparison = found.comparison
    held_out = FRAME[np.setdiff1d(np.arange(600), found.rows)]
    truth = read_target(held_out, SCHEMA)
    assert comparison.rows == len(held_out) == 120
    for model, interval in ((found.original, comparison.before), (found.model, comparison.after)):
        said = model.predict(held_out)
        assert interval.value == pytest.approx(np.mean(said == truth))
        assert 0 <= interval.low <= interval.value <= interval.high <= 1
    assert comparison.agreement == np.mean(found.original.predict(held_out) == found.model.predict(held_out))
    assert comparison.change.value == pytest.approx(comparison.after.value - comparison.before.value)
    assert comparison.change.low <= comparison.change.value <= comparison.change.high
    assert set(comparison.others) == {"f1_macro", "f1_weighted", "auc"}
    assert (comparison.task, comparison.score) == ("classification", "accuracy")


def test_the_baseline_is_the_most_frequent_class_of_the_training_rows(found):
    held_out = FRAME[np.setdiff1d(np.arange(600), found.rows)]
    assert found.comparison.baseline == np.mean(read_target(held_out, SCHEMA) == "<=50K")


def test_every_class_is_counted(found):
    classes = found.comparison.classes
    assert [one.name for one in classes] == ["<=50K", ">50K"]
    assert sum(one.rows for one in classes) == found.comparison.rows
    for when in ("before", "after"):
        right = sum(getattr(one, when) * one.rows for one in classes)
        assert right / found.comparison.rows == pytest.approx(getattr(found.comparison, when).value)


def test_the_release_holds_and_the_retrained_model_saw_nothing_else(found):
    checked = check(found.release.frame, SCHEMA, [KAnonymity(10)])
    assert checked.holds
    assert "person-id" not in found.release.frame.columns
    again = make_model("tree", SCHEMA).fit(found.release.frame, read_target(found.release.frame, SCHEMA))
    assert np.array_equal(again.predict(FRAME), found.model.predict(FRAME))
    trained = FRAME[found.rows]
    assert found.comparison.trained_before == found.original.score(trained, read_target(trained, SCHEMA))
    assert found.raw_risk == check(trained, SCHEMA).risk


def test_held_out_rows_are_not_in_the_release(found):
    assert len(found.rows) == len(found.release.frame) == 480
    assert len(set(found.rows.tolist())) == 480
    untouched = ["hours-per-week", "capital-gain", "condition", "income"]
    assert found.release.frame.select(untouched).equals(FRAME[found.rows].select(untouched))
    # Every released combination of values is one of a row that was trained on.
    trained, released = FRAME[found.rows].select(QUASI), found.release.frame.select(QUASI)
    assert set(released.rows()) <= set(trained.rows())


def test_rows_to_compare_on_can_be_given():
    train, test = FRAME[:400], FRAME[400:]
    found = protected(train, test=test.drop("person-id"))
    assert found.rows.tolist() == list(range(400))
    assert found.comparison.rows == 200
    assert found.comparison.after.value == found.model.score(test, read_target(test, SCHEMA))
    assert found.release.checked.rows == 400


@pytest.mark.parametrize("library", ["pandas", "pyarrow"])
def test_every_library_gives_the_same(library, found):
    other = protected(convert(FRAME, library))
    assert other.comparison == found.comparison
    assert other.rows.tolist() == found.rows.tolist()


def test_the_seed_decides_everything(found):
    again = protected()
    assert again.comparison == found.comparison
    assert again.release.frame.equals(found.release.frame)
    other = protected(random_state=1)
    assert other.rows.tolist() != found.rows.tolist()


def test_a_search_is_told_and_never_sees_the_held_out_rows():
    found = protect(FRAME, SCHEMA, "tree", 20)
    findings = found.release.findings
    assert {one["guide"] for one in findings["tried"]} == set(CANDIDATES)
    assert (findings["guide"], findings["recoding"]) == tuple(
        findings["tried"][0][name] for name in ("guide", "recoding")
    )
    assert found.release.parameters["recoding"] == findings["recoding"]
    held_out = FRAME[np.setdiff1d(np.arange(600), found.rows)]
    mixed_up = held_out.with_columns(income=held_out["income"].shuffle(seed=0))
    again = protect(FRAME[found.rows], SCHEMA, "tree", 20, test=mixed_up)
    assert again.comparison.after != found.comparison.after
    assert again.release.frame.equals(found.release.frame)
    assert again.release.findings == findings


def test_the_model_is_trained_anew_and_left_alone():
    own = make_pipeline(FunctionTransformer(_ages), DecisionTreeClassifier(max_depth=2))
    own.fit(FRAME, read_target(FRAME, SCHEMA))
    before = own[-1].tree_.node_count
    found = protected(model=own)
    assert found.model is not own
    assert own[-1].tree_.node_count == before
    assert found.model[-1].random_state == 0


def _ages(table):
    return table.select("age").to_numpy()


def test_a_trained_estimator_sees_the_columns_it_was_trained_on():
    y = read_target(FRAME, SCHEMA)
    own = DecisionTreeClassifier(max_depth=2).fit(FRAME.select("age"), y)
    found = protected(model=own)
    assert list(found.model[0].columns) == ["age"]
    assert np.array_equal(found.original.predict(FRAME.select("age")), found.original.predict(FRAME))
    trained = FRAME[found.rows]
    same = DecisionTreeClassifier(max_depth=2).fit(trained.select("age"), y[found.rows])
    assert np.array_equal(found.original.predict(FRAME), same.predict(FRAME.select("age")))


def with_target(rich, poor):
    """The table with these classes."""
    return FRAME.with_columns(pl.Series("income", [rich if one == ">50K" else poor for one in FRAME["income"]]))


@pytest.mark.parametrize(
    ("classes", "names", "dtype"),
    [((1, 0), ["0", "1"], np.int64), ((2.0, 1.0), ["1", "2"], np.int64), ((True, False), ["False", "True"], bool)],
)
def test_the_retrained_model_predicts_classes_as_they_are_in_the_table(classes, names, dtype, found):
    other = protected(with_target(*classes))
    assert set(other.model.predict(FRAME).tolist()) == set(classes)
    assert other.model.predict(FRAME).dtype == dtype
    assert [one.name for one in other.comparison.classes] == names
    assert other.comparison.before.value == found.comparison.before.value


@pytest.mark.parametrize(
    ("train", "test"), [((1, 0), ("1", "0")), (("1", "0"), (1, 0)), ((True, False), ("True", "False"))]
)
def test_rows_to_compare_on_may_write_classes_otherwise(train, test):
    alike, otherwise = (protected(with_target(*train)[:400], test=with_target(*one)[400:]) for one in (train, test))
    assert otherwise.comparison == alike.comparison
    assert alike.comparison.before.value > 0.5


def test_rows_to_compare_on_need_not_hold_every_class():
    # The classes 0 and 1.5 are texts; of the 0 alone it could not be told.
    frame = with_target(1.5, 0.0)
    comparison = protected(frame[:400], test=frame[400:].filter(pl.col("income") == 0)).comparison
    assert comparison.before.value > 0.5
    assert comparison.baseline == 1


def test_a_number_is_regressed():
    found = protected(schema=NUMERIC)
    comparison = found.comparison
    assert (comparison.task, comparison.score) == ("regression", "r2")
    assert comparison.agreement is None
    assert comparison.classes == ()
    assert set(comparison.others) == {"mae", "rmse"}
    for interval in (comparison.before, comparison.after, comparison.change):
        assert interval.low <= interval.value <= interval.high
    assert comparison.baseline <= 0
    assert "R²" in found.verdict
    assert found.release.k >= 10


def test_several_classes():
    found = protected(schema=MANY, model="bayes")
    assert len(found.comparison.classes) == FRAME["condition"].n_unique()
    assert sum(one.rows for one in found.comparison.classes) == 120
    assert "condition" not in features(found.schema)


def test_constraints_are_kept():
    found = protected(k=10, constraints=[LDiversity(3)])
    assert check(found.release.frame, SCHEMA, [KAnonymity(10), LDiversity(3)]).holds
    assert ("3-diversity (distinct) of every sensitive attribute", "3") in found.summary()


def test_another_method():
    found = protect(FRAME, SCHEMA, "tree", 10, method="mondrian")
    assert found.release.method == "mondrian"
    assert found.release.parameters["recoding"] == "representative"
    assert found.release.findings == {}
    assert check(found.release.frame, SCHEMA, [KAnonymity(10)]).holds
    relaxed = protect(FRAME, SCHEMA, "tree", 10, method="mondrian", mode="relaxed", recoding="median")
    assert relaxed.release.parameters["mode"] == "relaxed"
    assert relaxed.release.parameters["recoding"] == "median"
    assert protect(FRAME, SCHEMA, "tree", 10, method=Mondrian()).release.method == "mondrian"


def test_suppressed_rows_are_trained_on_as_missing():
    found = protected(suppression=0.1)
    assert found.release.checked.rows == 480
    assert found.comparison.rows == 120


@pytest.mark.parametrize(
    ("call", "culprit"),
    [
        (lambda: protected(model="treee"), "no model 'treee'"),
        (lambda: protected(model={"a": "tree", "b": "bayes"}), "One model is needed, not a, b"),
        (lambda: protected(model=LinearRegression()), "'LinearRegression' is not a model for classification"),
        (lambda: protected(model=make_pipeline(StandardScaler(), LogisticRegression())),
         "The model 'LogisticRegression' cannot be trained or used on this table (could not convert"),
        (lambda: protected(model=make_pipeline(FunctionTransformer(_ages), Mute())), "The model 'Mute' cannot be"),
        (lambda: protected(model=DecisionTreeClassifier().fit(pl.DataFrame({"size": [1, 2]}), [0, 1])),
         "trained on a column 'size', which is not a feature"),
        (lambda: protected(random_state=-1), "random_state must be a whole number from 0 to 4,294,967,295, got -1"),
        (lambda: protected(random_state=2**32), "got 4294967296"),
        (lambda: protected(random_state=0.5), "got 0.5"),
        (lambda: protected(random_state=None, test=FRAME), "got None"),
        (lambda: protected(with_target(1, 0), test=with_target("yes", "no")), "the value 'no' in the test rows"),
        (lambda: protected(schema=SCHEMA.with_roles(other=["income"])), "no target"),
        (lambda: protected(schema="people.toml"), "A Schema is needed"),
        (lambda: protected(FRAME.drop("age")), "'age' is not a column"),
        (lambda: protected(FRAME.with_columns(income=pl.lit("a"))), "'income' has only the value 'a'"),
        (lambda: protected(test=FRAME.drop("age")), "'age' is missing from the test rows"),
        (lambda: protected(test=FRAME[:0]), "no rows"),
        (lambda: protected(test_size=1.5), "test_size=1.5"),
        (lambda: protected(test_size=0), "test_size=0"),
        (lambda: protected(recoding="interval"), "recoding='interval' does not suit a model"),
        (lambda: protected(method="mondrain"), "no method 'mondrain'"),
        (lambda: protected(method="mondrian"), "no option 'guide'"),
        (lambda: protected(gide=1), "no option 'gide'"),
        (lambda: protected(constraints=[KMap(5, "sex")]), "about a population"),
        (lambda: protected(constraints=[3]), "not 3"),
    ],
)  # fmt: skip
def test_bad_input_is_told_in_one_sentence(call, culprit):
    with pytest.raises(ShoalError) as caught:
        call()
    assert culprit in str(caught.value)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


class Mute(DecisionTreeClassifier):
    """Can be trained, but not asked."""

    def predict(self, X, check_input=True):
        raise ValueError("nothing to say")


def test_k_that_cannot_be_reached_gives_no_protection():
    with pytest.raises(GuaranteeError, match="k=481 cannot be reached with n_samples=480"):
        protected(k=481)


# Intervals and words


def test_an_interval_of_a_share_is_wilsons():
    # By hand for 8 of 10, z = 1.959964: (0.8 + z²/20) / (1 + z²/10) = 0.716740,
    # z √(0.8 · 0.2 / 10 + z²/400) / (1 + z²/10) = 0.226578.
    truth = np.ones(10)
    before = np.r_[np.ones(8), np.zeros(2)]
    first, second, change = _accuracies(truth, before, truth)
    assert first.value == 0.8
    assert (first.low, first.high) == pytest.approx((0.490162, 0.943318), abs=1e-5)
    # All right: 1 / (1 + z²/10) to 1.
    assert second == pytest.approx((1.0, 0.722467, 1.0), abs=1e-5)
    assert change.value == 0.2


def change_of(n, gained, lost):
    """The change of accuracy on n rows, some gained and some lost."""
    before, after = np.ones(n), np.ones(n)
    before[:gained] = 0
    after[gained : gained + lost] = 0
    return _accuracies(np.ones(n), before, after)[2]


@pytest.mark.parametrize(
    ("n", "gained", "lost", "expected"),
    [
        # (2 + 1) / 12 - (0 + 1) / 12 = 1/6, z √((4/12 - 1/36) / 12) = 1.959964 · 0.159571 = 0.312754.
        (10, 2, 0, (0.2, 1 / 6 - 0.312754, 1 / 6 + 0.312754)),
        # (5 + 1) / 102 - (11 + 1) / 102 = -1/17, z √((18/102 - 1/289) / 102) = 1.959964 · 0.0411847 = 0.080721.
        (100, 5, 11, (-0.06, -1 / 17 - 0.080721, -1 / 17 + 0.080721)),
        # No row differs, yet nothing is certain: z √((2/80) / 80) = 1.959964 · 0.0176777 = 0.0346476.
        (78, 0, 0, (0.0, -0.0346476, 0.0346476)),
        # 2/3 - 1/3, z √((1 - 1/9) / 3) = 1.066869, and no change is larger than 1.
        (1, 1, 0, (1.0, 1 / 3 - 1.066869, 1.0)),
    ],
)
def test_an_interval_of_a_change_is_that_of_bonett_and_price(n, gained, lost, expected):
    assert change_of(n, gained, lost) == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize("n", [10, 20, 30])
def test_an_interval_of_a_change_holds_the_truth_on_few_rows(n):
    """Exactly, by the probability of every outcome, where models agree on half of the rows or more."""
    counts = np.array([(gained, lost) for gained in range(n + 1) for lost in range(n + 1 - gained)])
    intervals = np.array([change_of(n, *both) for both in counts.tolist()])
    held = []
    for gain, loss in [(i / 50, j / 50) for i in range(26) for j in range(26 - i)]:
        chances = stats.multinomial.pmf(np.c_[counts, n - counts.sum(axis=1)], n, [gain, loss, 1 - gain - loss])
        held.append(chances[(intervals[:, 1] <= gain - loss) & (gain - loss <= intervals[:, 2])].sum())
    assert min(held) > 0.925
    assert np.mean(held) > 0.95


def test_an_interval_of_r2_holds_it_and_narrows_with_rows():
    random = np.random.default_rng(0)
    widths = []
    for n in (100, 2500):
        truth = random.normal(size=n)
        good, bad = truth + random.normal(0, 0.3, n), truth + random.normal(0, 0.6, n)
        before, after, change = _r2s(truth, good, bad)
        assert before.value == pytest.approx(1 - np.mean((truth - good) ** 2) / truth.var())
        assert after.value == pytest.approx(1 - np.mean((truth - bad) ** 2) / truth.var())
        assert before.low < before.value < before.high
        assert change.high < 0
        assert change.value == pytest.approx(after.value - before.value)
        widths.append(change.high - change.low)
        assert _r2s(truth, good, bad) == (before, after, change)
    assert widths[1] < widths[0] / 2


def compared(low, high, score="accuracy"):
    change = Interval((low + high) / 2, low, high)
    one = Interval(0.8, 0.7, 0.9)
    return Comparison("", score, one, one, change, None, 0.5, 1.0, 0.9, {}, (), 80)


@pytest.mark.parametrize(
    ("low", "high", "score", "words"),
    [
        (0.01, 0.03, "accuracy", "The retrained model gains accuracy: +1.00 to +3.00 points."),
        (-0.03, -0.01, "accuracy", "The retrained model loses accuracy: -3.00 to -1.00 points."),
        (-0.02, 0.09, "accuracy", "No loss of accuracy was detected: the change is -2.00 to +9.00 points."),
        (-0.0986, 0.0986, "accuracy",
         "The 80 test rows are too few to detect a loss of accuracy: the change is -9.86 to +9.86 points."),
        (-0.021, 0.0, "accuracy",
         "The 80 test rows are too few to detect a loss of accuracy: the change is -2.10 to +0.00 points."),
        (-0.03, -0.01, "r2", "The retrained model loses R²: -0.0300 to -0.0100."),
        (-0.01, 0.01, "r2", "No loss of R² was detected: the change is -0.0100 to +0.0100."),
        (-0.03, 0.01, "r2",
         "The 80 test rows are too few to detect a loss of R²: the change is -0.0300 to +0.0100."),
    ],
)  # fmt: skip
def test_the_verdict_says_no_more_than_the_interval(low, high, score, words):
    assert verdict(compared(low, high, score)) == words


@pytest.mark.parametrize(
    ("before", "after", "baseline", "rest"),
    [
        (0.79, 0.79, 0.78, ""),
        (0.76, 0.76, 0.78, " But the model trained on raw rows is not clearly better than always predicting "
         "the most frequent class: little could be lost."),
        (0.79, 0.75, 0.78, " It is not clearly better than always predicting the most frequent class."),
    ],
)  # fmt: skip
def test_the_verdict_says_when_there_was_little_to_lose(before, after, baseline, rest):
    found = compared(-0.01, 0.01)._replace(
        task="classification", before=Interval(0.8, before, 0.9), after=Interval(0.8, after, 0.9), baseline=baseline
    )
    assert verdict(found) == "No loss of accuracy was detected: the change is -1.00 to +1.00 points." + rest


def test_the_verdict_on_almost_nothing():
    assert verdict(compared(-0.5, 0.5)._replace(rows=1)).startswith("A single test row is too few to detect")
    assert "no loss can be measured" in verdict(compared(math.nan, math.nan, "r2"))


def test_rows_that_were_trained_on_tell_little():
    census = make_census(300)
    with pytest.warns(UserWarning, match="is also among the training rows"):
        protect(census.frame, census.schema, "tree", k=10, method="mondrian", test=census.frame[:50])
    others = make_census(350).frame[300:]
    protect(census.frame, census.schema, "tree", k=10, method="mondrian", test=others)


def test_scores_and_guides_in_words():
    assert show_score("accuracy", 0.8123, 0.9) == "81.2 to 90.0 %"
    assert show_score("r2", 0.8123) == "0.812"
    assert show_change("accuracy", -0.0123) == "-1.23 points"
    assert show_change("r2", 0.01, 0.02) == "+0.0100 to +0.0200"
    guides = [describe_guide(guide) for guide in ("hard", "mondrian", 1.0, 0.7)]
    assert len(set(guides)) == 4
    assert "70%" in guides[3]
    assert "30%" in guides[3]


def test_a_protection_shows_itself(found):
    assert repr(found).startswith("Protection\n  model: DecisionTreeClassifier\n  accuracy before: ")
    assert "10-anonymous with respect to age" in repr(found)
    assert found._repr_html_().count("<tr>") == len(found.summary())


# The page


def page_of(protection, tmp_path, **options):
    protection.to_html(tmp_path / "report.html", **options)
    return (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_page_is_well_formed_and_loads_nothing(found, tmp_path):
    text = page_of(found, tmp_path, title="A model & others")
    page = Page(text)
    assert page.loads == []
    assert set(page.tags) & {"link", "script", "img", "iframe", "object", "base"} == set()
    assert not re.search(r"https?:|url\(|@import", text)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_the_page_says_what_was_found(found, tmp_path):
    text = Page(page_of(found, tmp_path, title="A model & others")).text
    assert "A model & others" in text
    assert found.verdict in text
    assert "10-anonymous with respect to age" in text
    assert "A DecisionTreeClassifier that predicts income was trained twice" in text
    for interval in (found.comparison.before, found.comparison.after):
        assert show_score("accuracy", interval.value) in text
        assert show_score("accuracy", interval.low, interval.high) in text
    for heading in ("Scores on unseen rows", "Overfitting", "Recall by class"):
        assert heading in text
    assert "Search for the groups" not in text  # nothing was tried
    words = text.split("Limitations")
    assert len(words) == 2
    assert not re.search(r"(?<!\d-)\banonymous\b", text.split("}")[-1])


def test_the_page_shows_what_was_tried(tmp_path):
    found = protect(FRAME, SCHEMA, "tree", 20)
    text = Page(page_of(found, tmp_path)).text
    assert "Search for the groups" in text
    assert text.count("✓ taken") == 1
    assert "the predicted classes (as published)" in text


def test_the_page_of_a_regression(tmp_path):
    text = Page(page_of(protected(schema=NUMERIC), tmp_path)).text
    assert "R²" in text
    assert "Always the mean" in text
    assert "Recall by class" not in text


def test_names_from_the_data_are_no_markup(tmp_path):
    renamed = {"income": "<script>income", "age": "<b>age"}
    frame = FRAME.rename(renamed).with_columns(
        pl.col("<script>income").cast(pl.String).replace({">50K": "<i>rich</i>"}).alias("<script>income")
    )
    schema = Schema(Attribute(renamed.get(a.name, a.name), a.role, a.kind) for a in SCHEMA)
    found = protected(frame, schema)
    text = page_of(found, tmp_path, title="<script>alert(1)</script>")
    assert "<script" not in text
    assert "<i>" not in text
    assert "&lt;script&gt;income" in text
    Page(text)
    assert "<script" not in found._repr_html_()


def test_a_page_that_fails_leaves_the_old_one(found, tmp_path, monkeypatch):
    (tmp_path / "report.html").write_text("old")
    monkeypatch.setattr("shoal.jobs.protect.render", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        found.to_html(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1
