"""Tables as people bring them: few columns, and no counts."""

import numpy as np
import pandas as pd


def own_table(step: float = 0.64) -> pd.DataFrame:
    """Two widths pruned ten times: width, density and error, nothing else."""
    rows = [
        {"width": width, "density": step**level, "error": _error(unpruned, width, step**level)}
        for width, unpruned in ((1.0, 0.10), (0.5, 0.14))
        for level in range(10)
    ]
    frame = pd.DataFrame(rows)
    return frame.assign(error=frame["error"] * np.exp(np.random.default_rng(3).normal(0, 0.02, len(frame))))


def _error(unpruned: float, width: float, density: float) -> float:
    """Eq. 1 with the invariant width^0.9 · density."""
    invariant, gamma, p, high = width**0.9 * density, 1.1, 0.02, 0.85
    top = invariant**2 + p**2 * (high / unpruned) ** (2 / gamma)
    return float(unpruned * (top / (invariant**2 + p**2)) ** (gamma / 2))
