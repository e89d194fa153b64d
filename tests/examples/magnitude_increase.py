"""A pruning criterion of your own: weights whose magnitude grew least during training are pruned first.

A plan's method names it as `score = "magnitude_increase:score"`.
"""

from prunecast.pruning import Criterion, register_criterion


def score(context):
    """Return |w after training| - |w before training| for every prunable weight, one tensor per layer."""
    return {
        name: weight.abs() - context.initial_weights[name].abs() for name, weight in context.weights.items()
    }


# Optional: with PRUNECAST_PLUGINS=magnitude_increase, a plan may say score = "magnitude-increase".
MAGNITUDE_INCREASE = register_criterion(
    Criterion(name="magnitude-increase", score=score, per_layer=False, thread_safe=True)
)
