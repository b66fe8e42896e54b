"""The first linear stage of an ONNX model, with the package ``onnx``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from shoal.errors import DataError, ShoalError, reason
from shoal.linear_stages._affine import NOT_LINEAR, Affine, StagePart, combine, multiply_by, scale_by, select

FLOATS = (1, 11)
"""Types float and double in ONNX; half precision would round the values."""


def look_at_onnx(model: Any) -> StagePart:
    """Read the beginning of a graph: the nodes after its one input, while each is linear and the only reader of it."""
    onnx = _import_onnx()
    if not isinstance(model, onnx.ModelProto):
        model = _load(onnx, Path(model))
    graph = model.graph
    constants = {one.name: onnx.numpy_helper.to_array(one) for one in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            constants[node.output[0]] = _attributes(onnx, node).get("value")
    inputs = [one for one in graph.input if one.name not in constants]
    if len(inputs) != 1:
        raise ShoalError(f"The ONNX model has {len(inputs)} inputs: export it with one input of all features.")
    shape = inputs[0].type.tensor_type
    if shape.elem_type not in FLOATS or len(shape.shape.dim) > 2:
        raise ShoalError("The ONNX model's input is not a table of floating-point numbers: export it with one that is.")
    return _follow(onnx, graph, constants, inputs[0])


def _follow(onnx: Any, graph: Any, constants: dict[str, Any], source: Any) -> StagePart:
    dimensions = source.type.tensor_type.shape.dim
    n = dimensions[-1].dim_value if len(dimensions) else 0
    name, found = source.name, None
    shown = {output.name for output in graph.output}
    while True:
        readers = [node for node in graph.node if _reads(onnx, node, name)]
        alone = len(readers) == 1 and name not in shown
        step = _step(onnx, readers[0], name, constants, n) if alone else None
        if step is None:
            return NOT_LINEAR if found is None else StagePart(found, complete=False)
        found = step if found is None else combine(found, step)
        name, n = readers[0].output[0], len(step.offset)
        if readers[0].op_type in _LAST:
            return StagePart(found, complete=False)


def _reads(onnx: Any, node: Any, name: str) -> bool:
    """Return True if a node, or a node inside it, reads a tensor."""
    inside = [one.g for one in node.attribute if one.type == onnx.AttributeProto.GRAPH]
    return name in node.input or any(_reads(onnx, inner, name) for graph in inside for inner in graph.node)


def _step(onnx: Any, node: Any, name: str, constants: dict[str, Any], n: int) -> Affine | None:
    """Return a node as a linear step of the named tensor; None if it is not linear."""
    others = [constants.get(one) for one in node.input if one not in (name, "")]
    read = _STEPS.get(node.op_type)
    if read is None or any(other is None for other in others) or list(node.input).count(name) != 1:
        return None
    first = node.input[0] == name
    return read(others, _attributes(onnx, node), first, n)


def _unchanged(others: list[Any], given: dict[str, Any], first: bool, n: int) -> Affine | None:
    return scale_by(1.0, None, n) if n > 0 else None


def _cast(others: list[Any], given: dict[str, Any], first: bool, n: int) -> Affine | None:
    return _unchanged(others, given, first, n) if given["to"] in FLOATS else None


def _flatten(others: list[Any], given: dict[str, Any], first: bool, n: int) -> Affine | None:
    return _unchanged(others, given, first, n) if given.get("axis", 1) == 1 else None


def _add(others: list[Any], given: dict[str, Any], first: bool, n: int) -> Affine | None:
    size = _width(others[0], n)
    return None if size is None else scale_by(1.0, others[0], size)


def _subtract(others: list[Any], given: dict[str, Any], first: bool, n: int) -> Affine | None:
    size = _width(others[0], n)
    if size is None:
        return None
    return scale_by(1.0, -others[0], size) if first else scale_by(-1.0, others[0], size)


def _multiply(others: list[Any], given: dict[str, Any], first: bool, n: int) -> Affine | None:
    size = _width(others[0], n)
    return None if size is None else scale_by(others[0], None, size)


def _divide(others: list[Any], given: dict[str, Any], first: bool, n: int) -> Affine | None:
    size = _width(others[0], n)
    return None if size is None or not first else scale_by(1.0 / np.asarray(others[0], float), None, size)


def _width(constant: Any, n: int) -> int | None:
    """Return the number of features of a tensor to which a constant is added row by row; None in other cases."""
    size = np.asarray(constant).size
    if np.asarray(constant).shape[-1:] not in ((), (size,)) or (n > 0 and size not in (1, n)) or (n == 0 and size == 1):
        return None
    return n or size


def _matmul(others: list[Any], given: dict[str, Any], first: bool, n: int) -> Affine | None:
    return multiply_by(others[0]) if first and np.ndim(others[0]) == 2 else None


def _gemm(others: list[Any], given: dict[str, Any], first: bool, n: int) -> Affine | None:
    if not first or given.get("transA", 0):
        return None
    weights = np.asarray(others[0], float) * given.get("alpha", 1.0)
    bias = None if len(others) < 2 else np.asarray(others[1], float) * given.get("beta", 1.0)
    if bias is not None and bias.ndim > 1 and bias.shape[0] > 1:
        return None  # a bias per row
    return multiply_by(weights.T if given.get("transB", 0) else weights, bias)


def _scaler(others: list[Any], given: dict[str, Any], first: bool, n: int) -> Affine | None:
    scale, offset = (np.asarray(given.get(key, default), float) for key, default in (("scale", 1), ("offset", 0)))
    return scale_by(scale, -offset * scale, max(scale.size, offset.size, n))


def _linear_model(others: list[Any], given: dict[str, Any], first: bool, n: int) -> Affine | None:
    weights = np.asarray(given["coefficients"], float)
    intercepts = np.asarray(given.get("intercepts", [0.0]), float)
    rows = weights.size // n if n > 0 else max(len(intercepts), int(given.get("targets", 1)))
    return multiply_by(weights.reshape(rows, -1).T, intercepts)


def _normalise(others: list[Any], given: dict[str, Any], first: bool, n: int) -> Affine | None:
    if given.get("training_mode", 0):
        return None
    scale, bias, mean, variance = (np.asarray(other, float) for other in others)
    factor = scale / np.sqrt(variance + given.get("epsilon", 1e-5))
    return scale_by(factor, bias - mean * factor, len(factor))


def _extract(others: list[Any], given: dict[str, Any], first: bool, n: int) -> Affine | None:
    chosen = np.asarray(others[0]).reshape(-1).astype(np.intp)
    return select(chosen % n, n) if first and n > 0 and (np.abs(chosen) < n + (chosen < 0)).all() else None


def _gather(others: list[Any], given: dict[str, Any], first: bool, n: int) -> Affine | None:
    along_features = given.get("axis", 0) in (1, -1) and np.ndim(others[0]) == 1
    return _extract(others, given, first, n) if along_features else None


Read = Callable[[list[Any], dict[str, Any], bool, int], Affine | None]
_LAST = {"LinearRegressor", "LinearClassifier"}
"""Nodes that are linear and do something else too, or whose first output is not the linear one."""
_STEPS: dict[str, Read] = {
    "Identity": _unchanged,
    "Dropout": _unchanged,
    "Cast": _cast,
    "Flatten": _flatten,
    "Add": _add,
    "Sub": _subtract,
    "Mul": _multiply,
    "Div": _divide,
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Scaler": _scaler,
    "BatchNormalization": _normalise,
    "ArrayFeatureExtractor": _extract,
    "Gather": _gather,
    "LinearRegressor": _linear_model,
    "LinearClassifier": _linear_model,
}


def _attributes(onnx: Any, node: Any) -> dict[str, Any]:
    found = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    if hasattr(found.get("value"), "raw_data"):
        found["value"] = onnx.numpy_helper.to_array(found["value"])
    return found


def _import_onnx() -> Any:
    try:
        import onnx
        import onnx.numpy_helper
    except ImportError as error:
        raise ShoalError(f"Reading an ONNX model needs onnx ({reason(error)}): pip install 'shoal[onnx]'.") from None
    return onnx


def _load(onnx: Any, path: Path) -> Any:
    if not path.is_file():
        raise DataError(f"There is no file {str(path)!r}: check the path.")
    try:
        return onnx.load(path)
    except Exception as error:  # a broken file can fail anywhere in the code that reads it
        raise DataError(f"{str(path)!r} cannot be read as an ONNX model ({reason(error)}): export it again.") from None
