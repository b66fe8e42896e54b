"""A file with the finished cells of an evaluation, one JSON object per line, so that a long run can be resumed."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import sklearn

import shoal
from shoal.data.factored import FactoredFrame
from shoal.data.files import require_place
from shoal.data.hierarchy.hierarchy import Hierarchy
from shoal.data.schema import Schema
from shoal.data.value_text import plain_text
from shoal.errors import DataError


class CellStore:
    """Results by fingerprint of their settings.

    Each result is on disk before the next one starts. A line that a kill cut short is left out.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        require_place(self.path)
        self._results = _read(self.path) if self.path.exists() else {}
        self._append("")  # refuses a file that cannot be written before any work is done

    def get(self, fingerprint: str) -> dict[str, Any] | None:
        """Return the result of a cell, or None."""
        return self._results.get(fingerprint)

    def add(self, fingerprint: str, cell: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        """Append a result; ``cell`` describes it to people."""
        self._results[fingerprint] = dict(result)
        line = {"fingerprint": fingerprint, "cell": cell, "result": {k: _writable(v) for k, v in result.items()}}
        self._append(json.dumps(line, allow_nan=False) + "\n")

    def _append(self, text: str) -> None:
        try:
            with self.path.open("ab+") as file:
                file.seek(0, os.SEEK_END)
                if file.tell():
                    file.seek(-1, os.SEEK_END)
                    # A line that a kill cut short must not run into the next one.
                    text = text if file.read() == b"\n" else "\n" + text
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise DataError(
                f"The store {str(self.path)!r} cannot be written ({error.strerror}): choose another."
            ) from None


def fingerprint(*parts: Any) -> str:
    """Return a short text that identifies these values; another version of the libraries changes it."""
    content = [shoal.__version__, sklearn.__version__, *parts]
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=joblib.hash).encode()).hexdigest()[:32]


def fingerprint_of_table(table: FactoredFrame, schema: Schema) -> str:
    """Return the fingerprint of a table's values and schema, whatever library holds them."""
    digest = hashlib.sha256()
    for attribute in schema:
        if attribute.role == "identifier":
            continue
        tree = attribute.hierarchy
        plan = [tree.values, tree.labels, tree.parent.tolist()] if isinstance(tree, Hierarchy) else repr(tree)
        described = [attribute.name, attribute.role, attribute.kind, attribute.weight, repr(attribute.order), plan]
        factor = table.factor(attribute.name)
        texts = [plain_text(value, factor.content) for value in factor.values]
        digest.update(json.dumps([described, texts]).encode())
        digest.update(factor.codes.astype(np.int64).tobytes())
    return digest.hexdigest()


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        lines: Sequence[str] = path.read_bytes().decode("utf-8", errors="replace").splitlines()
    except OSError as error:
        raise DataError(f"The store {str(path)!r} cannot be read ({error.strerror}): choose another.") from None
    results = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            content = json.loads(line)
            results[content["fingerprint"]] = {key: _readable(value) for key, value in content["result"].items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            if not line.startswith("{"):
                raise DataError(
                    f"Line {number} of {str(path)!r} is not a cell of an evaluation: choose another file."
                ) from None
    return results


def _writable(value: Any) -> Any:
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def _readable(value: Any) -> Any:
    return math.nan if value == "nan" else value
