"""The display of results in consoles and notebooks."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod


class FactSheet(ABC):
    """A result that displays its most important facts."""

    @abstractmethod
    def summary(self) -> list[tuple[str, str]]:
        """Return the facts, each a name and a text."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}\n" + "\n".join(f"  {name}: {text}" for name, text in self.summary())

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th>{html.escape(a)}</th><td>{html.escape(b)}</td></tr>" for a, b in self.summary())
        return f"<table><caption>{type(self).__name__}</caption>{rows}</table>"
