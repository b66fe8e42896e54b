"""Read the beginning of torch networks. The maker of one has imported torch: Shoal never does."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from shoal.errors import ShoalError
from shoal.linear_stages._affine import NOT_LINEAR, Affine, StagePart, follow, multiply_by, scale_by


def look_at_torch(module: Any) -> StagePart:
    """Read the beginning of a network: consecutive linear layers, and batch normalisation as in evaluation mode."""
    torch = sys.modules["torch"]
    _require_plain(module)
    if type(module) is torch.nn.Linear:
        bias = None if module.bias is None else _array(module.bias)
        return StagePart(multiply_by(_array(module.weight).T, bias), complete=True)
    if type(module) is torch.nn.BatchNorm1d and module.running_mean is not None:
        return StagePart(_normalise(module), complete=True)
    return _look_in_turn(module) if type(module) is torch.nn.Sequential else NOT_LINEAR


def _look_in_turn(modules: Any) -> StagePart:
    torch = sys.modules["torch"]
    for module in modules:
        _require_plain(module)
    idle = torch.nn.Identity, torch.nn.Dropout, torch.nn.Flatten  # they leave rows of features unchanged
    return follow(look_at_torch(module) for module in modules if type(module) not in idle)


def _normalise(module: Any) -> Affine:
    factor = 1.0 / np.sqrt(_array(module.running_var) + module.eps)
    factor = factor if module.weight is None else factor * _array(module.weight)
    offset = -_array(module.running_mean) * factor
    return scale_by(factor, offset if module.bias is None else offset + _array(module.bias), module.num_features)


def _require_plain(module: Any) -> None:
    """Refuse a module that does more than its class says."""
    torch = sys.modules["torch"]
    if module.training and isinstance(module, (torch.nn.BatchNorm1d, torch.nn.Dropout)):
        raise ShoalError(f"The network is in training mode, where its {type(module).__name__} does more: call eval().")
    if any(getattr(module, name, None) for name in ("_forward_hooks", "_forward_pre_hooks")):
        raise ShoalError(f"A {type(module).__name__} of the network has a hook, which may do anything: remove it.")


def _array(tensor: Any) -> np.ndarray:
    return np.asarray(tensor.detach().cpu().double().numpy())
