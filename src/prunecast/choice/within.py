"""Which networks may answer: those within what was measured, unless the question asks for more."""

import numpy as np
from numpy.typing import NDArray

from prunecast.choice.answer import Question
from prunecast.choice.sizes import ALLOW_AROUND, Sizes
from prunecast.errors import PrunecastError
from prunecast.laws import Fit
from prunecast.laws.reach import outside


def allowed(fit: Fit, found: Sizes, question: Question) -> Sizes:
    """Those that a question allows: a depth or width that it names may be any, and then the other axes count."""
    named = [axis for axis in ("depth", "width") if getattr(question, axis) is not None]
    if not named:
        return inside(fit, found, question.sizes)
    if question.sizes == "around" or len(named) > 1:
        return found
    for apart in ("", named[0]):
        kept = spanned(fit, found, apart)
        if kept.any():
            return found[kept]
    return found


def inside(fit: Fit, found: Sizes, reach: str) -> Sizes:
    """Those to answer with: unless `reach` is around, none outside what was measured, two axes at a time."""
    if reach == "around":
        return found
    kept = spanned(fit, found)
    if not kept.any():
        known = ", ".join(f"{n:,.0f}" for n in sorted({c.num_examples for c in fit.configurations}))
        raise PrunecastError(
            f"no size was trained both on fewer and on more than {found.num_examples[0]:,.0f} examples, so none lies "
            f"within what was measured; choose for a measured number ({known}), or allow other sizes with "
            f"{ALLOW_AROUND}"
        )
    return found[kept]


def spanned(fit: Fit, found: Sizes, apart: str = "") -> NDArray[np.bool_]:
    """Which sizes lie within what was measured, apart from an axis that does not count.

    Beyond the measured numbers of examples the nearest one counts.
    """
    known = [c.num_examples for c in fit.configurations]
    nearest = np.clip(found.num_examples, min(known), max(known))
    places = {"depth": found.depth, "width": found.width, "num_examples": nearest}
    places.pop(apart, None)
    return np.asarray(found.measured | ~outside(fit, places))


def hopeful(fit: Fit, candidates: Sizes) -> Sizes:
    """Those that err less unpruned than networks pruned to nothing; of the others the law says nothing of use.

    Where no curve rises it says nothing of any: whatever it promises of low densities is made up.
    """
    high = fit.parameters["high_error"]
    good = candidates.unpruned < high * (1 - 1e-9)  # a plateau at its bound lies there but for rounding
    if not fit.rises:
        raise PrunecastError(
            f"no curve of {fit.origin.table} rises above its unpruned error, so no law of pruning can be told; "
            "prune further"
        )
    if good.any():
        return candidates[good]
    asked = float(candidates.num_examples[0])
    more = max(c.num_examples for c in fit.configurations) > asked
    if "high_error" in fit.undetermined and not more:
        raise PrunecastError(
            f"the data do not tell how far the error rises (the law guesses {high:.3g}, no more than these networks "
            "err unpruned), so no law of pruning can be told; prune further"
        )
    raise PrunecastError(
        f"with {asked:,.0f} examples these networks would err by {candidates.unpruned.min():.3g} or more unpruned, at "
        f"or above the law's high plateau at {high:.3g}, where it says nothing; ask for more examples"
    )
