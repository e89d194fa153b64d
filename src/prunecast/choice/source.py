"""Where a choice's law comes from: a fit, a saved law, or a table, whose validation errors count where it has them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from prunecast.errors import PrunecastError
from prunecast.laws import Fit, fit, load
from prunecast.table import Table, read

VALIDATION = "validation_error"


def as_fit(source: Fit | Table | str | Path, law: str = "auto") -> Fit:
    """The law itself, or the one that a saved file holds, or one fitted to a table: the one that its data prefer."""
    if isinstance(source, Fit):
        return source
    if not isinstance(source, Table):
        if Path(source).suffix == ".json":
            return load(source)
        source = read(source)
    held_out = validated(source)
    fitted = fit(held_out or source, law=law)
    return replace(fitted, options={**fitted.options, "error": VALIDATION}) if held_out else fitted


def quantity(fit: Fit) -> str:
    """What a law predicts: error, validation_error or loss."""
    if fit.metric == "loss":
        return "loss"
    return VALIDATION if fit.options.get("error") == VALIDATION else "error"


def check_target(target_error: float | None, metric: str) -> None:
    """Refuse a target that no network could have; a loss has no upper limit."""
    if target_error is None:
        return
    if not (target_error > 0 and np.isfinite(target_error)):
        raise PrunecastError(f"the target error must be a positive number, not {target_error:g}")
    if metric == "error" and target_error >= 1:
        raise PrunecastError(f"the target error is a share of the test set below 1, not {target_error:g}")


def validated(table: Table) -> Table | None:
    """The table with validation errors in place of test errors; None where a row has none.

    What is chosen on the test set is no longer tested by it, so choices use the held-out split where there is one.
    """
    if VALIDATION not in table.frame or table.metric != "error":
        return None
    values = pd.to_numeric(table.frame[VALIDATION], errors="coerce").to_numpy(dtype=float)
    if not (np.isfinite(values) & (values > 0) & (values <= 1)).all():
        return None
    return replace(table, frame=table.frame.assign(error=values)).select()
