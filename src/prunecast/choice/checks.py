"""Questions that make no sense are refused in words."""

import numpy as np

from prunecast.choice.answer import Question
from prunecast.choice.options import MEASURES
from prunecast.choice.source import check_target
from prunecast.errors import PrunecastError
from prunecast.laws import Fit


def check(question: Question, fit: Fit) -> None:
    """Refuse what no network could answer, before any work."""
    bounds = (question.target_error, question.max_parameters, question.max_training, question.density)
    if all(bound is None for bound in bounds):
        raise PrunecastError(
            "choose needs a target error, or a budget of parameters or of training, or a density: --target-error, "
            "--max-parameters, --max-training or --density"
        )
    check_target(question.target_error, fit.metric)
    for name in ("max_parameters", "max_training", "depth", "width", "density"):
        value = getattr(question, name)
        if value is not None and not (value > 0 and np.isfinite(value)):
            raise PrunecastError(f"{name} must be a positive number, not {value:g}")
    if question.density is not None and question.density > 1:
        raise PrunecastError(f"the density is the share of weights kept, at most 1, not {question.density:g}")
    if not 0 < question.confidence < 1:
        raise PrunecastError(f"the confidence is a probability between 0 and 1, not {question.confidence:g}")
    if question.minimise not in MEASURES:
        raise PrunecastError(f"no measure is called {question.minimise!r}; there are {', '.join(MEASURES)}")


def ceiling(fit: Fit) -> float:
    """The error that every network keeps however far it is pruned: the high plateau, or guessing."""
    chance = np.inf if fit.origin.chance is None else fit.origin.chance
    return float(min(fit.parameters["high_error"], chance))


def check_plateau(target_error: float | None, fit: Fit) -> None:
    """Refuse an error that needs no network at all: nothing is the smallest then."""
    check_target(target_error, fit.metric)
    if target_error is None or target_error < ceiling(fit):
        return
    chance, high = fit.origin.chance, fit.parameters["high_error"]
    if chance is not None and target_error >= chance:
        why = f"guessing errs by {chance:g}, so any network reaches {target_error:g}"
    elif "high_error" in fit.undetermined:
        raise PrunecastError(
            f"the data do not tell how far the error rises (the law guesses {high:.3g}), so they do not say what "
            f"reaches {target_error:g}; ask for a lower error, or prune further"
        )
    else:
        why = (
            f"the law's high plateau is at {high:.3g}, so any network stays below {target_error:g} "
            "however far it is pruned"
        )
    raise PrunecastError(f"{why}; ask for a lower error")
