"""A loss, an optimizer and a learning-rate schedule of your own.

A plan's recipe names them as `own_recipe:FOCAL`, `own_recipe:LION` and `own_recipe:triangle`.
"""

from torch.nn import functional

from prunecast.training import Loss, Optimizer, warm_up


def focal_losses(logits, labels):
    """Return the focal loss of every example, -(1 - p)² log p with p the probability of its label."""
    log_p = -functional.cross_entropy(logits, labels, reduction="none")
    return -((1 - log_p.exp()) ** 2) * log_p


def focal_loss(logits, labels):
    """Return the mean over the examples; a loss that is only this function works, too."""
    return focal_losses(logits, labels).mean()


FOCAL = Loss(name="focal", mean=focal_loss, each=focal_losses)


def lion_step(recipe, parameters, gradients, state, rate):
    """Take a step of the learning rate in the direction of the sign of the momentum."""
    for weight, gradient, momentum in zip(parameters, gradients, state["momentum"], strict=True):
        mixed = recipe.momentum * momentum + (1 - recipe.momentum) * gradient
        weight.sub_(rate * mixed.sign())
        momentum.mul_(0.99).add_(0.01 * gradient)


LION = Optimizer(name="lion", step=lion_step, state=("momentum",), decoupled_decay=True, elementwise=True)


def triangle(recipe, times, step):
    """Return the learning rate of a step: up during warm-up, then down to zero in a straight line."""
    left = (times.total - step) / (times.total - times.warmup)
    return recipe.learning_rate * warm_up(times, step) * max(0.0, min(1.0, left))
