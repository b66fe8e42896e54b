"""Models by name take tables of every library; models and predictions from files are safe, or refused in a sentence."""

import datetime as dt
import pickle
import subprocess
import sys
import warnings

import joblib
import numpy as np
import polars as pl
import pytest
import skops.io
from hypothesis import given
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier

from shoal import Attribute, Hierarchy, Schema, make_model, models
from shoal.data.frames import convert
from shoal.datasets import make_census
from shoal.errors import DataError, SchemaError, ShoalError
from tables import tables

CENSUS = make_census(300, seed=0)
NUMERIC = Schema(
    Attribute(a.name, {"hours-per-week": "target", "income": "other"}.get(a.name, a.role), a.kind, order=a.order)
    for a in CENSUS.schema
)
CHEAP = ["tree", "logistic", "svm", "neighbors", "bayes"]
LIBRARIES = ["polars", "pandas", "pyarrow"]
TREE = "sklearn.tree._tree.Tree"


def train(name, schema=CENSUS.schema, frame=CENSUS.frame, **options):
    return make_model(name, schema, **options).fit(frame, models.read_target(frame, schema))


# Models by name


@pytest.mark.parametrize("name", CHEAP)
def test_a_model_takes_every_library_and_is_the_same(name):
    y = models.read_target(CENSUS.frame, CENSUS.schema)
    found = []
    for library in LIBRARIES:
        frame = convert(CENSUS.frame, library)
        found.append(make_model(name, CENSUS.schema).fit(frame, y).predict(frame))
    assert np.mean(found[0] == y) > 0.5
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


@pytest.mark.parametrize("name", [*CHEAP, "boosting", "lgbm"])
def test_classes_are_those_of_the_target(name):
    pytest.importorskip("lightgbm")
    frame = CENSUS.frame[:80]
    model = train(name, frame=frame)
    assert list(model.classes_) == ["<=50K", ">50K"]
    assert set(model.predict(frame)) <= set(model.classes_)
    if hasattr(model, "predict_proba"):
        assert np.allclose(model.predict_proba(frame).sum(axis=1), 1)


@pytest.mark.parametrize("name", ["tree", "svm", "neighbors", "lgbm"])
def test_a_numeric_target_is_regressed(name):
    pytest.importorskip("lightgbm")
    predicted = train(name, NUMERIC).predict(CENSUS.frame)
    assert predicted.dtype == float
    assert 5 < predicted.mean() < 80


def test_xgboost_takes_classes_of_any_name():
    pytest.importorskip("xgboost")
    model = train("xgb")
    assert list(model.classes_) == ["<=50K", ">50K"]
    assert model.score(CENSUS.frame, models.read_target(CENSUS.frame, CENSUS.schema)) > 0.8
    assert train("xgb", NUMERIC).predict(CENSUS.frame).mean() > 5


def test_names_and_sizes_are_as_in_the_papers():
    forest, mlp = make_model("rf", CENSUS.schema)[-1], make_model("mlp", CENSUS.schema)[-1]
    assert isinstance(forest, RandomForestClassifier)
    assert forest.n_estimators == 100
    assert isinstance(mlp, MLPClassifier)
    assert mlp.hidden_layer_sizes == (100,)
    assert type(make_model("hgb", CENSUS.schema)[-1]) is type(make_model("boosting", CENSUS.schema)[-1])
    assert {"tree", "forest", "boosting", "mlp", "logistic", "svm", "neighbors", "bayes", "xgb", "lgbm"} == set(
        models.model_names()
    )


def test_the_seed_is_passed_on_and_the_task_can_be_chosen():
    assert make_model("forest", CENSUS.schema, random_state=7)[-1].random_state == 7
    assert type(make_model("tree", NUMERIC, task="classification")[-1]).__name__ == "DecisionTreeClassifier"


def test_only_the_features_are_seen():
    assert models.features(CENSUS.schema) == [
        a.name for a in CENSUS.schema if a.role in ("quasi", "sensitive", "other")
    ]
    model = train("tree")
    seen = CENSUS.frame.select(models.features(CENSUS.schema))
    mixed = CENSUS.frame.with_columns(pl.lit("x").alias("person-id"), pl.lit(">50K").alias("income"))
    assert np.array_equal(model.predict(seen), model.predict(mixed))
    with pytest.raises(DataError, match="'age' is not in the table"):
        model.predict(CENSUS.frame.drop("age"))


def test_missing_values_dates_booleans_and_new_values_are_no_obstacle():
    schema = Schema(
        [
            Attribute("born", kind="numeric"),
            Attribute("city", kind="nominal"),
            Attribute("size", kind="ordinal", order=("S", "M", "L")),
            Attribute("rank", kind="ordinal"),
            Attribute("member", kind="numeric"),
            Attribute("empty", kind="numeric"),
            Attribute("y", "target", "nominal"),
        ]
    )
    frame = pl.DataFrame(
        {
            "born": [dt.date(1980, 1, 1), None, dt.date(2000, 1, 1), dt.date(1990, 1, 1)],
            "city": ["Graz", None, "Linz", "Graz"],
            "size": ["S", "L", None, "M"],
            "rank": ["10", "9", "2", None],
            "member": [True, False, None, True],
            "empty": pl.Series([None] * 4, dtype=pl.Float64),
            "y": ["a", "b", "a", "b"],
        }
    )
    later = frame.with_columns(pl.lit("Wien").alias("city"), pl.lit("XXL").alias("size"))
    for library in LIBRARIES:
        model = train("logistic", schema, convert(frame, library))
        assert set(model.predict(convert(later, library))) <= {"a", "b"}


def test_suppressed_values_of_a_text_column_count_as_missing():
    schema = Schema([Attribute("age"), Attribute("y", "target", "nominal")])
    frame = pl.DataFrame({"age": ["31", "*", "45"], "y": ["a", "a", "b"]})
    assert np.isnan(train("tree", schema, frame)[0].transform(frame)[1, 0])


def test_an_ordinal_attribute_is_numbered_in_its_order():
    frame = pl.DataFrame({"size": ["L", "S", "M", "XXL"]})
    encoder = models.FrameEncoder({"size": ["S", "M", "L"]}).fit(frame)
    assert np.array_equal(encoder.transform(frame)[:, 0], [2, 0, 1, np.nan], equal_nan=True)
    numbers = models.FrameEncoder({"size": "ordinal"})
    assert numbers.fit_transform(pl.DataFrame({"size": ["10", "9"]}))[:, 0].tolist() == [10, 9]
    assert numbers.fit_transform(pl.DataFrame({"size": ["tall", "small"]}))[:, 0].tolist() == [1, 0]
    tree = Hierarchy.from_dict({"*": {"little": ["S", "M"], "much": ["L"]}})
    schema = Schema([Attribute("size", kind="ordinal", hierarchy=tree), Attribute("y", "target", "nominal")])
    assert make_model("tree", schema)[0].columns == {"size": ["S", "M", "L"]}


@given(tables(least_rows=2))
def test_encoding_does_not_depend_on_the_library(table):
    encoded = []
    for library in LIBRARIES:
        encoder = make_model("tree", table.schema, task="classification")[0]
        encoded.append(encoder.fit_transform(convert(table.frame, library)))
    assert np.array_equal(encoded[0], encoded[1], equal_nan=True)
    assert np.array_equal(encoded[0], encoded[2], equal_nan=True)


@given(tables(least_rows=2))
def test_any_table_can_be_learned_from_and_predicted(table):
    y = np.array(["a", "b"] * len(table.frame))[: len(table.frame)]
    model = make_model("tree", table.schema, task="classification").fit(table.frame, y)
    assert len(model.predict(table.frame)) == len(y)
    assert isinstance(clone(model), Pipeline)
    assert isinstance(model[1], ColumnTransformer)


def test_a_network_that_has_not_converged_is_no_noise():
    model = make_model("mlp", CENSUS.schema)
    model.set_params(model__max_iter=2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(CENSUS.frame, models.read_target(CENSUS.frame, CENSUS.schema))
    assert caught == []


CLASSES = Schema([Attribute("x"), Attribute("y", "target", "nominal")])


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    ("values", "classes", "dtype"),
    [
        ([1, 0, 1], [1, 0, 1], np.int64),
        ([1.0, -2.0, 1.0], [1, -2, 1], np.int64),
        (pl.Series([7, 0, 7], dtype=pl.UInt8), [7, 0, 7], np.int64),
        ([True, False, True], [True, False, True], np.bool_),
        (["1", "0", "1"], ["1", "0", "1"], np.str_),
        ([0.5, 1.0, 0.5], ["0.5", "1", "0.5"], np.str_),
        ([1e300, 1.0, 1.0], ["1e+300", "1", "1"], np.str_),
        (pl.Series([2**64 - 1, 0, 0], dtype=pl.UInt64), ["18446744073709551615", "0", "0"], np.str_),
        ([dt.date(2024, 3, 5)] * 3, ["2024-03-05"] * 3, np.str_),
    ],
)
def test_classes_keep_whole_numbers_and_booleans(library, values, classes, dtype):
    read = models.read_target(convert(pl.DataFrame({"x": [1, 2, 3], "y": values}), library), CLASSES)
    assert read.tolist() == classes
    assert np.issubdtype(read.dtype, dtype)


def test_whole_numbers_that_pandas_stores_otherwise_are_classes_all_the_same():
    frame = pl.DataFrame({"x": [1, 2, 3], "y": [1, None, 0]}).to_pandas()
    assert frame["y"].dtype == float
    for dtype in (float, object, "Int64"):
        read = models.read_target(frame.astype({"y": dtype}).dropna(), CLASSES)
        assert read.dtype == np.int64
        assert read.tolist() == [1, 0]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_numeric_target_is_read_as_numbers(library):
    schema = Schema([Attribute("x"), Attribute("y", "target", "numeric")])
    frame = convert(pl.DataFrame({"x": [1, 2, 3], "y": [1, 0, 1]}), library)
    assert models.read_target(frame, schema).tolist() == [1.0, 0.0, 1.0]
    assert models.read_target(frame, schema).dtype == float


@pytest.mark.parametrize("dtype", [pl.Int8, pl.Float64, pl.Boolean])
@pytest.mark.parametrize("name", [*CHEAP, "boosting", "mlp", "lgbm", "xgb"])
def test_a_model_predicts_classes_of_the_type_it_was_given(name, dtype, tmp_path):
    pytest.importorskip({"lgbm": "lightgbm", "xgb": "xgboost"}.get(name, "sklearn"))
    frame = CENSUS.frame[:80].with_columns((pl.col("income").cast(pl.String) == ">50K").cast(dtype).alias("income"))
    model = train(name, frame=frame)
    models.save_model(model, tmp_path / "model.skops")
    for one in (model, models.load_model(tmp_path / "model.skops", trust=True)):
        assert one.predict(frame).dtype == (bool if dtype == pl.Boolean else np.int64)
        assert one.score(frame, models.read_target(frame, CENSUS.schema)) > 0.5


def test_an_estimator_sees_only_the_columns_it_is_given():
    y = models.read_target(CENSUS.frame, CENSUS.schema)
    for estimator in (DecisionTreeClassifier(), HistGradientBoostingClassifier()):
        model = models.around(estimator, CENSUS.schema, names=["sex", "age"]).fit(CENSUS.frame, y)
        assert list(model[0].columns) == ["sex", "age"]
        assert np.array_equal(model.predict(CENSUS.frame.select("age", "sex")), model.predict(CENSUS.frame))


@pytest.mark.parametrize(
    ("call", "culprit"),
    [
        (lambda: make_model("forrest", CENSUS.schema), "no model 'forrest'"),
        (lambda: make_model(None, CENSUS.schema), "no model None"),
        (lambda: make_model("tree", "schema.toml"), "A Schema is needed"),
        (
            lambda: make_model("tree", CENSUS.schema, task="clustering"),
            "task must be 'classification' or 'regression', got 'clustering'",
        ),
        (lambda: make_model("logistic", NUMERIC), "'logistic' cannot predict numbers"),
        (lambda: make_model("tree", Schema([Attribute("age")])), "has no target"),
        (lambda: make_model("tree", Schema([Attribute("a", "target"), Attribute("b", "target")])), "2 targets"),
        (lambda: make_model("tree", Schema([Attribute("a", "target")])), "no feature for a model"),
        (lambda: models.read_target(CENSUS.frame.drop("income"), CENSUS.schema), "'income' is not a column"),
        (
            lambda: models.read_target(CENSUS.frame.with_columns(pl.lit(None).alias("income")), CENSUS.schema),
            "300 missing values",
        ),
    ],
)
def test_bad_input_is_told_in_one_sentence(call, culprit):
    with pytest.raises(ShoalError) as caught:
        call()
    text = str(caught.value)
    assert culprit in text
    assert text.endswith(".")
    assert "\n" not in text


def test_several_targets_are_a_schema_error():
    with pytest.raises(SchemaError):
        models.task_of(Schema([Attribute("age")]))


def test_an_absent_package_is_named_with_its_extra():
    code = """
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name.split(".")[0] in ("lightgbm", "xgboost") else find(name, *rest)
from shoal import Attribute, Schema, make_model
for name in ("lgbm", "xgb"):
    try:
        make_model(name, Schema([Attribute("a"), Attribute("b", "target", "nominal")]))
    except ValueError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert all("shoal[boosting]" in line for line in lines)


# Files


@pytest.mark.parametrize("name", ["logistic", "svm", "neighbors", "bayes"])
def test_a_model_is_the_same_after_skops(name, tmp_path):
    model, path = train(name), tmp_path / "model.skops"
    models.save_model(model, path)
    loaded = models.load_model(path)
    assert np.array_equal(model.predict(CENSUS.frame), loaded.predict(CENSUS.frame))


def test_a_tree_must_be_trusted_by_name(tmp_path):
    model, path = train("tree"), tmp_path / "model.skops"
    models.save_model(model, path)
    untrusted = skops.io.get_untrusted_types(file=path)
    if TREE in untrusted:
        with pytest.raises(DataError, match=r"not known to be safe, sklearn\.tree\._tree\.Tree: pass trust"):
            models.load_model(path)
    for trust in ([TREE], True):
        loaded = models.load_model(path, trust=trust)
        assert np.array_equal(model.predict(CENSUS.frame), loaded.predict(CENSUS.frame))


def test_what_skops_does_not_know_is_refused_by_name(tmp_path):
    path = tmp_path / "model.skops"
    skops.io.dump(Anything(), path)
    with pytest.raises(DataError, match=r"Anything.*pass trust"):
        models.load_model(path)
    assert models.load_model(path, trust=True).predict() == 1


class Anything:
    def predict(self):
        return 1


@pytest.mark.parametrize("ending", ["joblib", "pkl", "pickle"])
def test_what_runs_code_is_refused_unless_trusted(ending, tmp_path):
    path = tmp_path / f"model.{ending}"
    model = train("tree")
    if ending == "joblib":
        models.save_model(model, path)
    else:
        path.write_bytes(pickle.dumps(model))
    with pytest.raises(DataError, match=r"would run whatever code.*\.skops.*trust=True"):
        models.load_model(path)
    with pytest.raises(DataError, match="would run whatever code"):
        models.load_model(path, trust=[TREE])
    loaded = models.load_model(path, trust=True)
    assert np.array_equal(model.predict(CENSUS.frame), loaded.predict(CENSUS.frame))


def test_a_refused_pickle_has_run_nothing(tmp_path):
    path, witness = tmp_path / "model.pkl", tmp_path / "witness"
    path.write_bytes(b"cpathlib\nPath.touch\n(cpathlib\nPath\n(V" + str(witness).encode() + b"\ntRtR.")
    with pytest.raises(DataError):
        models.load_model(path)
    assert not witness.exists()


@pytest.mark.parametrize(
    ("name", "content", "trust", "culprit"),
    [
        ("model.skops", b"not a zip", False, "is not a skops file"),
        ("model.pkl", b"not a pickle", True, "cannot be loaded"),
        ("model.joblib", b"", True, "cannot be loaded"),
        ("model.onnx", b"", False, "ends in '.onnx'"),
        ("model", b"", False, "ends in ''"),
        ("list.pkl", pickle.dumps([1]), True, "holds a list, which has no predict"),
    ],
)
def test_a_bad_model_file_is_told_in_one_sentence(name, content, trust, culprit, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as caught:
        models.load_model(tmp_path / name, trust=trust)
    assert culprit in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_or_cannot_be_written(tmp_path):
    with pytest.raises(DataError, match="There is no file"):
        models.load_model(tmp_path / "model.skops")
    with pytest.raises(DataError, match=r"ends in '\.pkl': Shoal saves models as \.skops and \.joblib"):
        models.save_model(train("bayes"), tmp_path / "model.pkl")
    with pytest.raises(DataError, match="so no file was"):
        models.save_model(lambda rows: rows, tmp_path / "model.joblib")
    assert list(tmp_path.iterdir()) == []


# Predictions of a black box


def write(path, **columns):
    pl.DataFrame(columns).write_csv(path)
    return path


def test_one_column_is_classes_or_numbers(tmp_path):
    labels = models.read_predictions(write(tmp_path / "a.csv", y=["no", "yes", "no"]), 3)
    assert labels.values.tolist() == ["no", "yes", "no"]
    assert labels.classes is None
    assert models.read_predictions(write(tmp_path / "b.csv", y=[0.5, 2, 3]), 3).values.tolist() == [0.5, 2.0, 3.0]
    pl.DataFrame({"y": [True, False]}).write_parquet(tmp_path / "c.parquet")
    assert models.read_predictions(tmp_path / "c.parquet", 2).values.tolist() == ["True", "False"]


def test_several_columns_are_probabilities(tmp_path):
    found = models.read_predictions(write(tmp_path / "a.csv", no=[0.9, 0.3334], yes=[0.1, 0.6667]), 2)
    assert found.classes == ["no", "yes"]
    assert found.values.tolist() == [[0.9, 0.1], [0.3334, 0.6667]]


@pytest.mark.parametrize(
    ("columns", "culprit"),
    [
        ({"y": ["a", "b"]}, "2 predictions for 3 rows"),
        ({"y": ["a", None, "b"]}, "1 missing values, the first in row 1"),
        ({"no": [0.5, 0.5, 0.5], "yes": [0.5, 0.5, 0.4]}, "row 2 of"),
        ({"no": [0.5, 0.5, 1.5], "yes": [0.5, 0.5, -0.5]}, "holds 1.5, which is not a probability"),
        ({"no": [0.5, 0.5, 0.5], "why": ["a", "b", "c"]}, "holds texts, not probabilities"),
    ],
)
def test_bad_predictions_are_told_in_one_sentence(columns, culprit, tmp_path):
    with pytest.raises(DataError) as caught:
        models.read_predictions(write(tmp_path / "p.csv", **columns), 3)
    assert culprit in str(caught.value)
    assert "\n" not in str(caught.value)


def test_joblib_is_what_save_model_writes(tmp_path):
    models.save_model(train("bayes"), tmp_path / "m.joblib")
    assert hasattr(joblib.load(tmp_path / "m.joblib"), "predict")


# Which of the selected features are quasi-identifiers


def encoded(frame=CENSUS.frame):
    """The features as numbers, under their names."""
    numbers = train("tree")[0].transform(frame)
    return pl.DataFrame(numbers, schema=models.features(CENSUS.schema)).to_pandas()


def test_names_are_told_by_their_role_in_their_order():
    found = models.explain_selection(["capital-gain", "age", "condition", "sex"], CENSUS.schema)
    assert [tuple(feature) for feature in found.features] == [
        ("capital-gain", "other"),
        ("age", "quasi"),
        ("condition", "sensitive"),
        ("sex", "quasi"),
    ]
    assert found.of("quasi") == ["age", "sex"]
    assert found.summary == "2 of 4 selected features are quasi-identifiers: age, sex; sensitive: condition."


@pytest.mark.parametrize(
    ("names", "summary"),
    [
        (["capital-gain"], "0 of 1 selected features are quasi-identifiers."),
        ("age", "1 of 1 selected features is a quasi-identifier: age."),
        (np.array(["age", "income"]), "1 of 2 selected features is a quasi-identifier: age."),
        (["age", "age"], "1 of 1 selected features is a quasi-identifier: age."),
    ],
)
def test_the_summary_is_one_sentence(names, summary):
    assert models.explain_selection(names, CENSUS.schema).summary == summary


def test_a_selector_is_asked_what_it_supports():
    y = models.read_target(CENSUS.frame, CENSUS.schema)
    table = encoded()
    selector = SelectKBest(k=4).fit(table, y)
    expected = [name for name, chosen in zip(table.columns, selector.get_support(), strict=True) if chosen]
    assert [feature.name for feature in models.explain_selection(selector, CENSUS.schema).features] == expected
    # Fitted on an array it has no names: the columns are those that models see, in the schema's order.
    nameless = SelectKBest(k=4).fit(table.to_numpy(), y)
    assert models.explain_selection(nameless, CENSUS.schema) == models.explain_selection(selector, CENSUS.schema)


def test_a_model_is_asked_what_it_finds_important():
    y = models.read_target(CENSUS.frame, CENSUS.schema)
    stump = DecisionTreeClassifier(max_depth=1, random_state=0).fit(encoded(), y)
    (feature,) = models.explain_selection(stump, CENSUS.schema).features
    assert feature.name == encoded().columns[stump.feature_importances_.argmax()]


def test_features_of_a_pipeline_lead_back_to_attributes():
    y = models.read_target(CENSUS.frame, CENSUS.schema)
    model = make_model("tree", CENSUS.schema)
    model.set_params(model__max_depth=3)
    found = models.explain_selection(model.fit(CENSUS.frame, y), CENSUS.schema)
    used = model[:-1].get_feature_names_out()[model[-1].feature_importances_ > 0]
    assert len(used) >= len(found.features) >= 1
    for feature in found.features:
        assert feature.role == CENSUS.schema[feature.name].role
        assert any(f"__{feature.name}" in name for name in used)
    encode, prepare, tree = model.steps
    selecting = Pipeline([encode, prepare, ("select", SelectKBest(k=3)), tree]).fit(CENSUS.frame, y)
    assert 1 <= len(models.explain_selection(selecting, CENSUS.schema).features) <= 3


def test_the_longest_name_that_fits_is_taken():
    schema = Schema([Attribute("job"), Attribute("job_old", "other"), Attribute("a__b", "sensitive")])
    found = models.explain_selection(["nominal__job_x", "job_old_x", "onehot__a__b_1", "job_old"], schema)
    assert [feature.name for feature in found.features] == ["job", "job_old", "a__b"]


@pytest.mark.parametrize(
    ("selected", "culprit"),
    [
        (["age", "size"], "'size' is not an attribute of the schema"),
        (SelectKBest(), "selection of a SelectKBest cannot be read"),
        (make_model("tree", CENSUS.schema), "selection of a DecisionTreeClassifier cannot be read"),
        (make_model("logistic", CENSUS.schema), "no attribute 'feature_importances_'"),
        (SelectKBest(k=1).fit([[1, 2], [2, 1], [3, 3]], [0, 1, 1]), "2 columns, but models of this schema use 13"),
        (3, "3 selects no features"),
    ],
)
def test_a_selection_that_cannot_be_told_is_refused_in_one_sentence(selected, culprit):
    with pytest.raises(ShoalError) as caught:
        models.explain_selection(selected, CENSUS.schema)
    assert culprit in str(caught.value)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
