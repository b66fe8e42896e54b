"""Environments of peers that cannot be installed beside Shoal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def peer_python(name: str, *options: str) -> str:
    """The interpreter of a peer's environment ``.peer-name``, which is made from ``name.txt`` if it is not there.

    ``SHOAL_NAME_PYTHON`` names the interpreter of another one; ``options`` are those of pip.
    """
    if given := os.environ.get(f"SHOAL_{name.upper()}_PYTHON"):
        return given
    home = HERE.parent / f".peer-{name}"
    python, made = home / "bin" / "python", home / ".made"
    if not made.exists():
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", *options, "-r"]
        subprocess.run([python, *install, HERE / f"{name}.txt"], check=True)
        made.touch()
    return str(python)
