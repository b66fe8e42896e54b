"""Models with differential privacy, from the libraries that are known for it, to compare other defences with.

They are extras: DP-SGD needs ``torch`` and ``opacus``; the forest needs ``diffprivlib``, which does not run beside
current versions of scikit-learn and so may live in an environment of its own. Both take arrays of numbers; for tables
put :func:`shoal.models.around` before them.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from shoal.errors import ShoalError, reason

PEER = Path(__file__).with_name("_diffprivlib_peer.py")


class OpacusNetwork(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A network trained by DP-SGD (Abadi et al. 2016) with Opacus.

    Once trained, it needs neither torch nor Opacus.

    Parameters
    ----------
    epsilon : float, optional
        Budget of differential privacy for one row; None trains without any.
    delta : float
        Chance that the budget is not kept; well below one in the number of rows.
    hidden : int or sequence of int
        Units of the hidden layer, or of each of several.
    activation : {"relu", "tanh"}
    epochs : int
    batch_size : int
    learning_rate : float
    max_grad_norm : float
        What the gradient of a row is cut down to.
    random_state : int
        Seed; the noise of a model that is handed out should not be drawn from a seed that anybody knows.

    Attributes
    ----------
    epsilon_ : float
        The budget that was spent, by Opacus's account.
    classes_ : array
    """

    def __init__(
        self,
        epsilon: float | None = 1.0,
        *,
        delta: float = 1e-5,
        hidden: int | Sequence[int] = 100,
        activation: str = "relu",
        epochs: int = 15,
        batch_size: int = 256,
        learning_rate: float = 0.002,
        max_grad_norm: float = 1.0,
        random_state: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.hidden = hidden
        self.activation = activation
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.max_grad_norm = max_grad_norm
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Train the network."""
        torch = _import("torch", "pip install torch opacus")
        X, codes = _read(self, X, y)
        torch.manual_seed(self.random_state)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # batches are small: more threads only get in each other's way
        try:
            network = self._train(torch, X.astype(np.float32), codes)
        finally:
            torch.set_num_threads(threads)
        layers = [module for module in network.modules() if isinstance(module, torch.nn.Linear)]
        self.coefs_ = [layer.weight.detach().double().numpy().T for layer in layers]
        self.intercepts_ = [layer.bias.detach().double().numpy() for layer in layers]
        return self

    def _train(self, torch: Any, X: np.ndarray, codes: np.ndarray) -> Any:
        nn = torch.nn
        widths = [X.shape[1], *np.atleast_1d(self.hidden).tolist(), len(self.classes_)]
        layers: list[Any] = []
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), nn.ReLU() if self.activation == "relu" else nn.Tanh()]
        network = nn.Sequential(*layers[:-1])
        rows = torch.utils.data.TensorDataset(torch.from_numpy(X), torch.from_numpy(codes))
        drawing = torch.Generator().manual_seed(self.random_state)
        loader = torch.utils.data.DataLoader(rows, batch_size=self.batch_size, shuffle=True, generator=drawing)
        optimizer = torch.optim.Adam(network.parameters(), lr=self.learning_rate)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            engine, loss_of = None, nn.CrossEntropyLoss()
            if self.epsilon is not None:
                engine, network, optimizer, loss_of, loader = self._make_private(network, optimizer, loss_of, loader)
            for _ in range(self.epochs):
                for part, labels in loader:
                    if len(labels) == 0:
                        continue
                    optimizer.zero_grad()
                    loss_of(network(part), labels).backward()
                    optimizer.step()
            self.epsilon_ = np.inf if engine is None else float(engine.get_epsilon(self.delta))
        return network

    def _make_private(self, network: Any, optimizer: Any, loss_of: Any, loader: Any) -> tuple[Any, ...]:
        opacus = _import("opacus", "pip install opacus")
        engine = opacus.PrivacyEngine()
        return engine, *engine.make_private_with_epsilon(
            module=network,
            optimizer=optimizer,
            criterion=loss_of,
            data_loader=loader,
            target_epsilon=self.epsilon,
            target_delta=self.delta,
            epochs=self.epochs,
            max_grad_norm=self.max_grad_norm,
            # The gradient of each row is not laid out, only how long it is: the same steps in a third of the time with
            # 90 features, in a tenth with 700, in a twentieth with several layers.
            grad_sample_mode="ghost",
        )

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class."""
        check_is_fitted(self, "coefs_")
        X = validate_data(self, X, reset=False)
        seen = X
        for weights, shift in zip(self.coefs_[:-1], self.intercepts_[:-1], strict=True):
            seen = seen @ weights + shift
            seen = np.maximum(seen, 0.0) if self.activation == "relu" else np.tanh(seen)
        odds = seen @ self.coefs_[-1] + self.intercepts_[-1]
        raised = np.exp(odds - odds.max(axis=1, keepdims=True))
        return np.asarray(raised / raised.sum(axis=1, keepdims=True))

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])


class DiffprivlibForest(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The random forest of diffprivlib (Fletcher and Islam 2017), trained and asked in a process of its own.

    Parameters
    ----------
    epsilon : float
        Budget of differential privacy.
    n_estimators : int
    max_depth : int
    bounds : pair of arrays, optional
        Lowest and highest value of each feature. By default those of the training rows, which gives a little away that
        the budget does not count.
    python : str, optional
        Interpreter that has diffprivlib; by default the one that ``SHOAL_DIFFPRIVLIB_PYTHON`` names, or this one.
    random_state : int
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        n_estimators: int = 100,
        max_depth: int = 10,
        bounds: Any = None,
        python: str | None = None,
        random_state: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.bounds = bounds
        self.python = python
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Train the forest."""
        X, codes = _read(self, X, y)
        low, high = (X.min(axis=0), X.max(axis=0)) if self.bounds is None else self.bounds
        asked = {"epsilon": self.epsilon, "n_estimators": self.n_estimators, "max_depth": self.max_depth}
        given = {"X": X, "codes": codes, "low": low, "high": high, "n_classes": len(self.classes_)}
        self.model_ = self._run("fit", **given, **asked, seed=self.random_state)["model"].tobytes()
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class."""
        check_is_fitted(self, "model_")
        X = validate_data(self, X, reset=False)
        model = np.frombuffer(self.model_, np.uint8)
        return np.asarray(self._run("ask", model=model, X=X, n_classes=len(self.classes_))["shares"])

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def _run(self, job: str, **arrays: Any) -> dict[str, np.ndarray]:
        python = self.python or os.environ.get("SHOAL_DIFFPRIVLIB_PYTHON") or sys.executable
        with tempfile.TemporaryDirectory() as folder:
            given, found = Path(folder) / "given.npz", Path(folder) / "found.npz"
            np.savez(given, **arrays)
            command = [python, str(PEER), job, str(given), str(found)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False)
            except OSError as error:
                raise ShoalError(
                    f"The interpreter {python!r} cannot be run ({error.strerror}): check python."
                ) from None
            if done.returncode != 0:
                last = (done.stderr.strip().splitlines() or ["it ended without a word"])[-1]
                raise ShoalError(
                    f"diffprivlib cannot be used there ({last}): name an interpreter that has it by python or "
                    "SHOAL_DIFFPRIVLIB_PYTHON (pip install diffprivlib 'scikit-learn<1.8')."
                )
            with np.load(found) as file:
                return dict(file)


def _read(estimator: Any, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    X, y = validate_data(estimator, X, y)
    check_classification_targets(y)
    if getattr(estimator, "activation", "relu") not in ("relu", "tanh"):
        raise ShoalError(f"There is no activation {estimator.activation!r}: choose relu or tanh.")
    estimator.classes_, codes = np.unique(y, return_inverse=True)
    if len(estimator.classes_) < 2:
        raise ShoalError("All rows have the same class, so there is nothing to learn: pass others.")
    if estimator.epsilon is not None and not (np.isfinite(estimator.epsilon) and estimator.epsilon > 0):
        raise ShoalError(f"epsilon={estimator.epsilon!r} is no budget: choose a number above 0.")
    return X, codes


def _import(name: str, way_out: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ShoalError(f"This model needs {name}, which cannot be used ({reason(error)}): {way_out}.") from None
