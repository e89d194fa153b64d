"""How a table's networks are spoken of: by the axes and in the unit of size that its columns tell."""

from dataclasses import dataclass

import numpy as np

from prunecast.choice.counts import Counter
from prunecast.laws import Fit

UNITS = {
    "stored": "stored parameters",
    "nonzero": "non-zero weights",
    "multiply-adds": "multiply-adds",
    "paper": "l·w²·d",
}
OF_LARGEST = "of the largest measured network unpruned"


@dataclass(frozen=True, kw_only=True)
class Naming:
    """What is said of a network, so that no sentence tells a depth or a count that nobody gave."""

    axes: tuple[str, ...]
    """those of depth, width and num_examples that tell networks apart or that the table gives"""
    largest: float | None = None
    """the size of the largest measured network unpruned, where sizes are known in proportion only; else None"""

    def network(self, depth: float, width: float) -> str:
        """A network by its depth and width, as far as they are known."""
        known = {"depth": f"depth {depth:g}", "width": f"width {width:.4g}"}
        return (
            ", ".join(words for axis, words in known.items() if axis in self.axes) or "the measured network"
        )

    def amount(self, size: float) -> str:
        """A number of parameters or of operations, or a share where counts are not known."""
        if self.largest is not None:
            return _share(size / self.largest)
        return f"{size:,.0f}" if size >= 100 else f"{size:.4g}"

    def unit(self, minimise: str) -> str:
        """What an amount is of."""
        return UNITS[minimise] if self.largest is None else OF_LARGEST


def _share(value: float) -> str:
    """Two digits at least, of small shares too."""
    return f"{value:.0%}" if value >= 0.0995 else f"{100 * value:.2g}%"


def naming(fit: Fit, how: Counter, **asked: float | None) -> Naming:
    """How to speak of the networks of a law; an axis of which only ones are known was no column of the table.

    A width of 1 is said of a named family, since it is then that family's own. Whoever asks for another value of an
    axis names it.
    """
    known = {
        axis: np.array([getattr(c, axis) for c in fit.configurations])
        for axis in ("depth", "width", "num_examples")
    }
    told = tuple(
        axis
        for axis, values in known.items()
        if (values != 1).any() or asked.get(axis) not in (None, 1) or (axis == "width" and fit.origin.family)
    )
    largest = None if how.exact else max(c.weights for c in fit.configurations)
    return Naming(axes=told, largest=largest)
