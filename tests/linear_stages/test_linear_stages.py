"""The linear stage that is read from a predictor is the one that it has."""

import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA, IncrementalPCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import BaggingClassifier, RandomForestRegressor, VotingRegressor
from sklearn.feature_selection import SelectKBest, VarianceThreshold, f_regression
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    Lasso,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sklearn.random_projection import SparseRandomProjection
from sklearn.svm import SVC, LinearSVC

from shoal.errors import DataError, ShoalError
from shoal.linear_stages import LinearStage, read_linear_stage
from shoal.models import make_model

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(200, 5)) * [1, 10, 100, 0.1, 1] + [5, -3, 0, 0, 1000]
NUMBERS = X @ [1, 0.2, 0.01, 5, 0.3] + RANDOM.normal(size=200)
SEVERAL = np.column_stack([NUMBERS, X[:, 0] ** 2])
CLASSES = (np.median(NUMBERS) < NUMBERS).astype(int)
THREE = np.digitize(NUMBERS, np.quantile(NUMBERS, [0.3, 0.6]))


def predicted(model):
    return model.predict(X)


def decided(model):
    return model.decision_function(X)


def transformed(model):
    return model.transform(X)


@pytest.mark.parametrize(
    ("model", "y", "outputs"),
    [
        (LinearRegression(), NUMBERS, predicted),
        (LinearRegression(fit_intercept=False), SEVERAL, predicted),
        (Ridge(), SEVERAL, predicted),
        (Lasso(0.1), NUMBERS, predicted),
        (PoissonRegressor(), np.abs(NUMBERS), lambda model: np.log(model.predict(X))),
        (LogisticRegression(max_iter=5000), CLASSES, decided),
        (LogisticRegression(max_iter=5000), THREE, decided),
        (RidgeClassifier(), THREE, decided),
        (LinearSVC(max_iter=50_000), THREE, decided),
        (SVC(kernel="linear"), CLASSES, decided),
        (SGDClassifier(random_state=0), CLASSES, decided),
        (LinearDiscriminantAnalysis(), THREE, decided),
        (PLSRegression(2), SEVERAL, predicted),
        (PLSRegression(1), NUMBERS, predicted),
        (PCA(2), None, transformed),
        (PCA(3, whiten=True), None, transformed),
        (IncrementalPCA(2), None, transformed),
        (TruncatedSVD(2), None, transformed),
        (SparseRandomProjection(3, random_state=0), None, transformed),
        (TransformedTargetRegressor(Ridge()), NUMBERS, None),
        (GridSearchCV(Ridge(), {"alpha": [0.1, 1]}), NUMBERS, predicted),
        (MultiOutputRegressor(Ridge()), SEVERAL, predicted),
        (OneVsRestClassifier(LinearSVC(max_iter=50_000)), THREE, decided),
        (make_pipeline(StandardScaler(), Ridge()), SEVERAL, predicted),
        (make_pipeline(StandardScaler(with_mean=False), Ridge()), NUMBERS, predicted),
        (make_pipeline(StandardScaler(with_std=False), Ridge()), NUMBERS, predicted),
        (make_pipeline(MinMaxScaler((-1, 3)), Ridge()), NUMBERS, predicted),
        (make_pipeline(RobustScaler(), MaxAbsScaler(), LogisticRegression()), CLASSES, decided),
        (make_pipeline(RobustScaler(with_centering=False), LinearRegression()), NUMBERS, predicted),
        (make_pipeline(SimpleImputer(), StandardScaler(), PCA(3), LinearRegression()), NUMBERS, predicted),
        (make_pipeline(VarianceThreshold(1), SelectKBest(f_regression, k=2), Ridge()), NUMBERS, predicted),
        (make_pipeline("passthrough", FunctionTransformer(), Ridge()), NUMBERS, predicted),
        (make_pipeline(make_union(StandardScaler(), PCA(2)), Ridge()), NUMBERS, predicted),
        (make_pipeline(make_pipeline(StandardScaler(), PCA(4)), Ridge()), NUMBERS, predicted),
        (
            make_pipeline(
                ColumnTransformer(
                    [("a", StandardScaler(), [3, 1]), ("b", "passthrough", slice(4, 5)), ("c", PCA(1), [0, 2])]
                ),
                Ridge(),
            ),
            NUMBERS,
            predicted,
        ),
        (
            make_pipeline(ColumnTransformer([("a", MinMaxScaler(), [0])], remainder=RobustScaler()), Ridge()),
            NUMBERS,
            predicted,
        ),
        (MLPRegressor(activation="identity", max_iter=30, random_state=0), NUMBERS, predicted),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_outputs_are_those_of_the_model(model, y, outputs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X) if y is None else model.fit(X, y)
    stage = read_linear_stage(model)
    expected = model.regressor_.predict(X) if outputs is None else outputs(model)
    assert np.allclose(stage.outputs(X), np.reshape(expected, (len(X), -1)), rtol=1e-9, atol=1e-9 * np.abs(X).max())
    assert not stage.fixed.any()


@pytest.mark.parametrize("network", [MLPClassifier, MLPRegressor])
def test_of_a_network_it_is_the_first_layer(network):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make_pipeline(StandardScaler(), network(hidden_layer_sizes=(3,), max_iter=20, random_state=0)).fit(
            X, CLASSES
        )
    stage = read_linear_stage(model)
    scaled = model[0].transform(X)
    assert np.allclose(stage.outputs(X), scaled @ model[1].coefs_[0] + model[1].intercepts_[0])


def test_models_side_by_side_all_see_the_row():
    voting = VotingRegressor([("a", Ridge()), ("b", make_pipeline(StandardScaler(), Lasso(0.1)))]).fit(X, NUMBERS)
    outputs = read_linear_stage(voting).outputs(X)
    assert np.allclose(outputs, np.column_stack([one.predict(X) for one in voting.estimators_]))
    calibrated = CalibratedClassifierCV(LinearSVC(max_iter=50_000), cv=2).fit(X, CLASSES)
    members = [one.estimator for one in calibrated.calibrated_classifiers_]
    outputs = read_linear_stage(calibrated).outputs(X)
    assert np.allclose(outputs, np.column_stack([one.decision_function(X) for one in members]))


def test_a_model_that_is_not_linear_after_pca_sees_no_more_than_pca():
    model = make_pipeline(StandardScaler(), PCA(2), RandomForestRegressor(5)).fit(X, NUMBERS)
    assert np.allclose(read_linear_stage(model).outputs(X), model[:2].transform(X))
    selected = make_pipeline(SelectKBest(f_regression, k=2), RandomForestRegressor(5)).fit(X, NUMBERS)
    assert np.allclose(read_linear_stage(selected).outputs(X), selected[0].transform(X))


FRAME = pd.DataFrame(X[:, :3], columns=["a", "b", "c"]).assign(kind=np.where(X[:, 0] > 5, "x", "y"))


@pytest.mark.parametrize(
    "prepare",
    [
        ColumnTransformer([("hot", OneHotEncoder(), ["kind"]), ("scaled", StandardScaler(), ["c", "a", "b"])]),
        ColumnTransformer([("hot", OneHotEncoder(), ["kind"]), ("rest", "passthrough", slice("a", "c"))]),
        ColumnTransformer([("hot", OneHotEncoder(), [3])], remainder=StandardScaler()),
        ColumnTransformer(
            [
                ("hot", OneHotEncoder(), make_column_selector(dtype_exclude="number")),
                ("scaled", make_pipeline(SimpleImputer(), StandardScaler()), make_column_selector("[abc]")),
            ]
        ),
        ColumnTransformer([("hot", OneHotEncoder(), [False, False, False, True]), ("drop", "drop", ["c"])],
                          remainder="passthrough"),
    ],
    ids=range(5),
)  # fmt: skip
def test_columns_that_are_encoded_are_fixed(prepare):
    model = Pipeline([("prepare", prepare), ("model", Ridge())]).fit(FRAME, NUMBERS)
    stage = read_linear_stage(model)
    assert stage.names == ("a", "b", "c", "kind")
    assert stage.fixed.tolist() == [False, False, False, True]
    assert (stage.matrix[3] == 0).all()
    other = FRAME.assign(a=FRAME["a"] + 1, b=FRAME["b"] * 2, c=0.5)
    moved = (other[["a", "b", "c"]] - FRAME[["a", "b", "c"]]).to_numpy() @ stage.matrix[:3, 0]
    assert np.allclose(model.predict(other) - model.predict(FRAME), moved)


def test_a_column_in_two_blocks_of_which_one_is_not_linear_is_fixed():
    prepare = ColumnTransformer([("square", PolynomialFeatures(), ["a"]), ("scaled", StandardScaler(), ["a", "b"])])
    stage = read_linear_stage(make_pipeline(prepare, Ridge()).fit(FRAME[["a", "b"]], NUMBERS))
    assert stage.fixed.tolist() == [True, False]


def test_what_mixes_into_an_encoder_is_fixed():
    mixed = make_pipeline(
        PCA(2), ColumnTransformer([("bins", PolynomialFeatures(), [0]), ("rest", "passthrough", [1])]), Ridge()
    )
    assert read_linear_stage(mixed.fit(X, NUMBERS)).fixed.all()


def test_models_of_shoal_are_read_by_the_names_of_their_columns():
    from shoal.datasets import make_census

    census = make_census(300)
    model = make_model("logistic", census.schema).fit(census.frame, census.frame["income"].to_numpy())
    stage = read_linear_stage(model)
    names = dict(zip(stage.names, stage.fixed, strict=True))
    assert not names["age"]
    assert names["education"] or names["sex"]


def test_matrices_and_stages_are_taken_as_they_are():
    stage = read_linear_stage([[1, 2], [3, 4], [5, 6]])
    assert stage.matrix.shape == (3, 2)
    assert read_linear_stage(stage) is stage
    assert read_linear_stage([1, 2, 3]).matrix.shape == (3, 1)
    assert isinstance(stage, LinearStage)


class Doubling(StandardScaler):
    """A scaler that does something else, too."""

    def transform(self, X):
        return np.abs(super().transform(X))


class Contrary(LogisticRegression):
    """A linear model that predicts otherwise."""

    def predict(self, X):
        return super().predict(np.abs(X))


def test_a_column_that_is_named_twice_counts_twice():
    twice = ColumnTransformer([("a", "passthrough", [0, 0, 1])], remainder="passthrough")
    model = make_pipeline(twice, Ridge()).fit(X, NUMBERS)
    assert np.allclose(read_linear_stage(model).outputs(X)[:, 0], model.predict(X))


def test_models_inside_of_others_are_read_as_they_were_trained():
    search = GridSearchCV(make_pipeline(StandardScaler(), Ridge()), {"ridge__alpha": [0.1, 1]})
    model = MultiOutputRegressor(search).fit(X, SEVERAL)
    assert np.allclose(read_linear_stage(model).outputs(X), model.predict(X))


@pytest.mark.parametrize(
    ("predictor", "sentence"),
    [
        (lambda: RandomForestRegressor(2).fit(X, NUMBERS), "A RandomForestRegressor does not begin with a linear"),
        (lambda: make_pipeline(StandardScaler(), RandomForestRegressor(2)).fit(X, NUMBERS), "does not begin with"),
        (lambda: make_pipeline(PolynomialFeatures(), Ridge()).fit(X, NUMBERS), "A Ridge does not begin with"),
        (lambda: make_pipeline(Normalizer(), Ridge()).fit(X, NUMBERS), "does not begin with"),
        (lambda: make_pipeline(MinMaxScaler(clip=True), Ridge()).fit(X, NUMBERS), "does not begin with"),
        (lambda: make_pipeline(FunctionTransformer(np.sqrt), Ridge()).fit(np.abs(X), NUMBERS), "does not begin"),
        (lambda: make_pipeline(FeatureUnion([("a", PolynomialFeatures())]), Ridge()).fit(X, NUMBERS), "does not"),
        (lambda: SVC().fit(X, CLASSES), "A SVC does not begin with"),
        (lambda: make_pipeline(MaxAbsScaler(clip=True), Ridge()).fit(X, NUMBERS), "does not begin with"),
        (lambda: make_pipeline(SimpleImputer(missing_values=0), Ridge()).fit(X, NUMBERS), "does not begin with"),
        (lambda: BaggingClassifier(RidgeClassifier().fit(X, CLASSES)).fit(X, CLASSES), "does not begin with"),
        (lambda: BaggingClassifier(make_pipeline(StandardScaler(), LinearSVC())).fit(X, CLASSES), "does not begin"),
        (lambda: Pipeline([("a", PLSRegression(1).fit(X, NUMBERS)), ("b", Ridge().fit(X[:, :1], THREE))]), "not begin"),
        (lambda: make_pipeline(Doubling(), Ridge()).fit(X, NUMBERS), "does not begin with"),
        (lambda: Contrary().fit(X, CLASSES), "does not begin with"),
        (lambda: Ridge(), "A Ridge is not trained yet"),
        (lambda: None, "A NoneType is not a predictor"),
        (lambda: object(), "A object is not a predictor"),
        (lambda: np.zeros((2, 2, 2)), "is not a predictor that can be read"),
        (lambda: np.array([1, np.nan]), "weights are not all finite"),
        (lambda: "no-such-file.onnx", "There is no file 'no-such-file.onnx'"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_gets_one_sentence(predictor, sentence):
    with pytest.raises(ShoalError, match=sentence):
        read_linear_stage(predictor())


class TestOnnx:
    """Graphs as exporters write them, judged by the reference runtime of ONNX."""

    @pytest.fixture(autouse=True)
    def use_onnx(self):
        self.onnx = pytest.importorskip("onnx")

    def graph(self, nodes, outputs, **constants):
        helper, types = self.onnx.helper, self.onnx.TensorProto
        arrays = [self.onnx.numpy_helper.from_array(np.asarray(a, np.float32), name) for name, a in constants.items()]
        return helper.make_model(
            helper.make_graph(
                nodes,
                "model",
                [helper.make_tensor_value_info("x", types.FLOAT, [None, 4])],
                [helper.make_tensor_value_info(name, types.FLOAT, None) for name in outputs],
                arrays,
            ),
            opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)],
        )

    def node(self, kind, inputs, output, **attributes):
        return self.onnx.helper.make_node(kind, inputs, [output], **attributes)

    def judge(self, model, output):
        from onnx.reference import ReferenceEvaluator

        rows = RANDOM.normal(size=(20, 4)).astype(np.float32)
        expected = ReferenceEvaluator(model).run([output], {"x": rows})[0]
        assert np.allclose(read_linear_stage(model).outputs(rows), expected, atol=1e-4)

    def test_a_scaler_before_a_layer(self):
        weights = RANDOM.normal(size=(3, 4))
        nodes = [
            self.node("Sub", ["x", "mean"], "centred"),
            self.node("Div", ["centred", "scale"], "scaled"),
            self.node("Gemm", ["scaled", "w", "b"], "z", transB=1, alpha=2.0, beta=0.5),
            self.node("Relu", ["z"], "y"),
        ]
        model = self.graph(nodes, ["z", "y"], mean=[1, 2, 3, 4], scale=[2, 2, 1, 5], w=weights, b=[1, 2, 3])
        self.judge(model, "z")

    def test_products_sums_and_choices(self, tmp_path):
        nodes = [
            self.node("Identity", ["x"], "a"),
            self.node("Mul", ["a", "half"], "b"),
            self.node("Sub", ["ones", "b"], "c"),
            self.node("MatMul", ["c", "w"], "d"),
            self.node("Add", ["bias", "d"], "z"),
            self.node("Tanh", ["z"], "y"),
        ]
        model = self.graph(
            nodes, ["z", "y"], half=[0.5], ones=[[1, 1, 1, 1]], w=RANDOM.normal(size=(4, 2)), bias=[3, 4]
        )
        self.judge(model, "z")
        path = tmp_path / "model.onnx"
        self.onnx.save(model, path)
        assert np.allclose(read_linear_stage(path).matrix, read_linear_stage(model).matrix)

    def test_models_of_scikit_learn_as_exporters_write_them(self):
        nodes = [
            self.onnx.helper.make_node(
                "Scaler", ["x"], ["s"], domain="ai.onnx.ml", offset=[1.0, 2, 3, 4], scale=[0.5, 1, 2, 1]
            ),
            self.onnx.helper.make_node(
                "LinearRegressor", ["s"], ["z"], domain="ai.onnx.ml", coefficients=[1.0, 2, 3, 4], intercepts=[0.5]
            ),
        ]
        self.judge(self.graph(nodes, ["z"]), "z")

    def test_normalisation_and_flattening(self):
        nodes = [
            self.node("Flatten", ["x"], "f", axis=1),
            self.node("BatchNormalization", ["f", "g", "b", "m", "v"], "n"),
            self.node("Gather", ["n", "chosen"], "z", axis=1),
            self.node("Sigmoid", ["z"], "y"),
        ]
        model = self.graph(nodes, ["z", "y"], g=[1, 2, 1, 1], b=[0, 1, 0, 1], m=[1, 1, 0, 0], v=[1, 4, 1, 1])
        chosen = self.onnx.numpy_helper.from_array(np.array([2, 0]), "chosen")
        model.graph.initializer.append(chosen)
        self.judge(model, "z")

    def test_a_tensor_that_others_look_at_too_ends_the_stage(self):
        nodes = [
            self.node("MatMul", ["x", "w"], "a"),
            self.node("MatMul", ["a", "v"], "b"),
            self.node("Relu", ["a"], "c"),
            self.node("Add", ["b", "c"], "y"),
        ]
        model = self.graph(nodes, ["y"], w=RANDOM.normal(size=(4, 2)), v=RANDOM.normal(size=(2, 2)))
        assert np.allclose(read_linear_stage(model).matrix, self.onnx.numpy_helper.to_array(model.graph.initializer[0]))

    def test_what_is_not_linear_gets_one_sentence(self, tmp_path):
        relu = self.graph([self.node("Relu", ["x"], "y")], ["y"])
        with pytest.raises(ShoalError, match="A ModelProto does not begin with a linear stage"):
            read_linear_stage(relu)
        reciprocal = self.graph([self.node("Div", ["one", "x"], "y")], ["y"], one=[1.0])
        with pytest.raises(ShoalError, match="does not begin"):
            read_linear_stage(reciprocal)
        broken = tmp_path / "broken.onnx"
        broken.write_bytes(b"\x08\xff\xff garbage")
        with pytest.raises(DataError, match=r"broken.onnx' cannot be read as an ONNX model"):
            read_linear_stage(broken)

    def test_what_others_see_too_ends_the_stage(self):
        """A tensor that is an output itself, or is read inside of a branch."""
        nodes = [self.node("MatMul", ["x", "w"], "a"), self.node("MatMul", ["a", "v"], "b")]
        weights = {"w": RANDOM.normal(size=(4, 3)), "v": RANDOM.normal(size=(3, 1))}
        assert read_linear_stage(self.graph(nodes, ["b"], **weights)).matrix.shape == (4, 1)
        assert read_linear_stage(self.graph(nodes, ["a", "b"], **weights)).matrix.shape == (4, 3)
        with pytest.raises(ShoalError, match="does not begin"):
            read_linear_stage(self.graph(nodes, ["x", "b"], **weights))

    def test_inputs_that_are_no_tables_of_floats_get_one_sentence(self):
        model = self.graph([self.node("MatMul", ["x", "w"], "y")], ["y"], w=np.ones((4, 1)))
        model.graph.input[0].type.tensor_type.elem_type = 7
        with pytest.raises(ShoalError, match="not a table of floating-point numbers"):
            read_linear_stage(model)
        mismatched = self.graph(
            [self.node("MatMul", ["x", "w"], "a"), self.node("MatMul", ["a", "v"], "y")],
            ["y"],
            w=np.ones((4, 2)),
            v=np.ones((3, 1)),
        )
        with pytest.raises(ShoalError, match="A ModelProto cannot be read"):
            read_linear_stage(mismatched)

    def test_without_the_package_it_says_what_to_install(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "onnx", None)
        with pytest.raises(ShoalError, match=r"pip install 'shoal\[onnx\]'"):
            read_linear_stage("model.onnx")


class TestTorch:
    """Networks of torch; Shoal does not install it."""

    @pytest.fixture
    def torch(self):
        return pytest.importorskip("torch")

    def test_the_first_layers_of_a_network(self, torch):
        nn = torch.nn
        torch.manual_seed(0)
        begin = [nn.Flatten(), nn.BatchNorm1d(5), nn.Dropout(0.5), nn.Linear(5, 3), nn.Sequential(nn.Linear(3, 2))]
        network = nn.Sequential(*begin, nn.ReLU(), nn.Linear(2, 1))
        rows = torch.tensor(X, dtype=torch.float32)
        network.train()
        network(rows)
        network.eval()
        expected = nn.Sequential(*begin).eval()(rows).detach().numpy()
        assert np.allclose(read_linear_stage(network).outputs(X), expected, rtol=1e-4, atol=1e-3)

    def test_a_single_layer(self, torch):
        layer = torch.nn.Linear(5, 2, bias=False)
        assert np.allclose(read_linear_stage(layer).matrix, layer.weight.detach().numpy().T)

    def test_what_is_not_linear_gets_one_sentence(self, torch):
        with pytest.raises(ShoalError, match="A ReLU does not begin with a linear stage"):
            read_linear_stage(torch.nn.ReLU())
        with pytest.raises(ShoalError, match="does not begin"):
            read_linear_stage(torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Linear(5, 1)))

    def test_modules_that_do_more_than_they_say_get_one_sentence(self, torch):
        nn = torch.nn

        class Skipping(nn.Sequential):
            def forward(self, rows):
                return super().forward(rows) + rows.sum()

        with pytest.raises(ShoalError, match="A Skipping does not begin"):
            read_linear_stage(Skipping(nn.Linear(5, 1)))
        with pytest.raises(ShoalError, match="training mode"):
            read_linear_stage(nn.Sequential(nn.Dropout(0.5), nn.Linear(5, 1)).train())
        hooked = nn.Linear(5, 1)
        hooked.register_forward_hook(lambda module, given, said: said * 2)
        with pytest.raises(ShoalError, match="has a hook"):
            read_linear_stage(hooked)
        half = nn.Linear(5, 1).to(torch.bfloat16)
        assert read_linear_stage(half).matrix.dtype == float
        with pytest.raises(ShoalError, match="cannot be read"):
            read_linear_stage(nn.Sequential(nn.Linear(5, 2), nn.Linear(3, 1)))
