"""Baselines with differential privacy; they need libraries that Shoal does not install."""

import os
import pickle
import sys

import numpy as np
import pytest
from _dp_baselines import DiffprivlibForest, OpacusNetwork
from sklearn.base import clone

from shoal.errors import ShoalError

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(1500, 4))
Y = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")


def test_dp_sgd_learns_within_its_budget():
    pytest.importorskip("torch")
    pytest.importorskip("opacus")
    model = OpacusNetwork(3.0, hidden=16, epochs=5, batch_size=64).fit(X[:1000], Y[:1000])
    assert 0 < model.epsilon_ <= 3.0
    assert model.score(X[1000:], Y[1000:]) > 0.8
    again = pickle.loads(pickle.dumps(model))
    assert np.allclose(again.predict_proba(X).sum(axis=1), 1)
    assert (clone(model).fit(X[:1000], Y[:1000]).predict(X) == model.predict(X)).mean() > 0.9


def test_large_networks_learn_within_their_budget():
    pytest.importorskip("torch")
    pytest.importorskip("opacus")
    model = OpacusNetwork(3.0, hidden=(400, 300), activation="tanh", epochs=4, batch_size=64).fit(X[:1000], Y[:1000])
    assert [len(one) for one in model.coefs_] == [4, 400, 300]
    assert 0 < model.epsilon_ <= 3.0
    assert model.score(X[1000:], Y[1000:]) > 0.8
    with pytest.raises(ShoalError, match="no activation 'sine'"):
        OpacusNetwork(activation="sine").fit(X, Y)


def test_without_a_budget_it_is_a_plain_network():
    pytest.importorskip("torch")
    model = OpacusNetwork(None, hidden=16, epochs=10).fit(X[:1000], Y[:1000])
    assert np.isinf(model.epsilon_)
    assert model.score(X[1000:], Y[1000:]) > 0.9


def test_the_forest_is_trained_and_asked_elsewhere():
    if not os.environ.get("SHOAL_DIFFPRIVLIB_PYTHON"):
        pytest.skip("SHOAL_DIFFPRIVLIB_PYTHON names no interpreter that has diffprivlib")
    model = DiffprivlibForest(100.0, n_estimators=20, max_depth=5).fit(X[:1000], Y[:1000])
    assert model.predict_proba(X[1000:]).shape == (500, 2)
    assert model.score(X[1000:], Y[1000:]) > 0.7
    assert (pickle.loads(pickle.dumps(model)).predict(X) == model.predict(X)).all()


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ShoalError, match="needs torch"):
        OpacusNetwork().fit(X, Y)
    with pytest.raises(ShoalError, match="cannot be run"):
        DiffprivlibForest(python="/no/such/python").fit(X, Y)
    with pytest.raises(ShoalError, match="diffprivlib cannot be used there"):
        DiffprivlibForest(python=sys.executable).fit(X, Y)


@pytest.mark.parametrize("make", [OpacusNetwork, DiffprivlibForest])
def test_bad_input_gets_one_sentence(make):
    pytest.importorskip("torch")
    with pytest.raises(ShoalError, match="epsilon=-1 is no budget"):
        make(-1).fit(X, Y)
    with pytest.raises(ShoalError, match="All rows have the same class"):
        make(1.0).fit(X, np.full(len(X), "yes"))
