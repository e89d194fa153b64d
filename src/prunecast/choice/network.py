"""One pruned network of a search as a value: how good and how large it is, and what it costs to get."""

import numpy as np

from prunecast.choice.answer import Network
from prunecast.choice.counts import Counter
from prunecast.choice.options import Options, measured_by, quantile
from prunecast.choice.search import Search
from prunecast.laws.points import Floats
from prunecast.laws.reach import below
from prunecast.laws.uncertainty import COVERAGE
from prunecast.spec import RECIPES


def network(search: Search, options: Options, index: int) -> Network:
    """One of many options, with all that an answer tells of it."""
    one = options[np.array([index])]
    size, fit, target = one.sizes, search.fit, search.question.target_error
    log_error, reach = float(one.log_error[0]), quantile(fit, (1 + COVERAGE) / 2) * float(one.spread[0])
    top = np.inf if fit.metric == "loss" else 1.0
    level = int(one.level[0])
    operations = float(size.counts.multiply_adds[0] * one.density[0])
    recipe = RECIPES.get(fit.origin.recipe)
    return Network(
        depth=float(size.depth[0]),
        width=float(size.width[0]),
        num_examples=float(size.num_examples[0]),
        density=float(one.density[0]),
        level=level,
        error=float(np.exp(one.told[0])),
        expected_error=float(np.exp(log_error)),
        interval=(float(np.exp(log_error - reach)), float(min(np.exp(log_error + reach), top))),
        probability=None if target is None else float(one.probability(fit, float(np.log(target)))[0]),
        source="measured" if one.row[0] else "law",
        nonzero_parameters=_whole(one.nonzero, search.counter),
        stored_parameters=_whole(one.nonzero + size.counts.fixed, search.counter),
        paper_size=float(measured_by("paper", one)[0]),
        multiply_adds=None if np.isnan(operations) else operations,
        unpruned_error=float(size.told[0]),
        unpruned_source="measured" if size.measured[0] else "predicted",
        expected_unpruned_error=float(size.unpruned[0]),
        extrapolated=bool(size.outside[0] or below(fit, one.density)[0]),
        trainings=level + 1,
        training_cost=float(search.training_cost(one)[0]),
        network_epochs=None if recipe is None else (level + 1) * float(recipe.epochs),
    )


def _whole(count: Floats, how: Counter) -> float:
    return round(float(count[0])) if how.exact else float(count[0])
