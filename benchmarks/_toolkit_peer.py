"""Run ai-privacy-toolkit in its own environment (toolkit.txt): ``python _toolkit_peer.py table.npz k``.

The file holds the columns ``names``, each as ``column <name>``, the names of the ``categorical`` ones, and the labels
``y``. Every column is a quasi-identifier. Prints the CPU seconds of ``anonymize`` alone, its peak memory in bytes, and
the number of groups, as JSON.
"""

from __future__ import annotations

import json
import sys
import warnings
from functools import cache


def main(path: str, k: int) -> None:
    import numpy as np
    import pandas as pd
    from _measure import peak_memory, seconds

    Anonymize, ArrayDataset = import_toolkit()
    with np.load(path) as file:
        names, categorical, y = file["names"].tolist(), file["categorical"].tolist(), file["y"]
        frame = pd.DataFrame({name: file[f"column {name}"] for name in names})
    anonymizer = Anonymize(k, names, categorical_features=categorical)
    data = ArrayDataset(frame, y)
    taken: list[float] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # it calls scikit-learn 1.3 by an old name of a parameter
        memory = peak_memory(lambda: taken.append(seconds(lambda: anonymizer.anonymize(data), 1, cpu=True)))
    print(json.dumps({"seconds": taken[0], "memory": memory, "groups": int(anonymizer._anonymizer.get_n_leaves())}))


@cache
def import_toolkit():
    """Its classes ``Anonymize`` and ``ArrayDataset``, without what its other modules need.

    ``import apt`` loads all of the toolkit, and with it torch and adversarial-robustness-toolbox (gigabytes).
    Anonymization uses nothing of them but the name of torch's tensor, in a type annotation.
    """
    from importlib.util import find_spec
    from types import ModuleType

    package = ModuleType("apt")
    package.__path__ = list(find_spec("apt").submodule_search_locations)
    torch = ModuleType("torch")
    torch.Tensor = type("Tensor", (), {})
    sys.modules.update(apt=package, torch=torch)
    try:
        from apt.anonymization import Anonymize
        from apt.utils.datasets import ArrayDataset
    finally:
        del sys.modules["torch"]  # scipy asks every array whether it is a tensor once torch is there
    return Anonymize, ArrayDataset


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
