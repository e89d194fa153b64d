"""Specs and selections as text."""

from collections.abc import Sequence

from prunecast.spec import ChainSpec, ErrorRise, Recipe


def sizes(specs: Sequence[ChainSpec]) -> str:
    """Depths, widths and numbers of examples in words."""
    axes = (
        ("depths", sorted({spec.depth for spec in specs})),
        ("widths", sorted({spec.width for spec in specs})),
        ("examples", sorted({spec.num_examples for spec in specs})),
    )
    return "; ".join(f"{name} {', '.join(f'{value:,g}' for value in values)}" for name, values in axes)


def method_words(spec: ChainSpec) -> str:
    """A method in words."""
    method, rewind = spec.method, f"epoch {spec.recipe.rewind:g}"
    score = {
        "magnitude": "smallest of the whole network",
        "layerwise-magnitude": "smallest of each layer",
        "synflow": "with the least synaptic flow",
        "random": "drawn at random",
    }
    gone = f"each level removes {method.fraction:g} of the surviving weights, those {score.get(method.score)}"
    then = {
        "weight-rewinding": f"rewinds the rest to {rewind}",
        "rate-rewinding": f"trains on with the learning rates from {rewind}",
        "fine-tuning": "trains on with the last learning rate",
        "from-start": "trains from the beginning",
    }[method.retraining]
    return f"no weights go; each level {then}" if method.score == "none" else f"{gone}, and {then}"


def recipe_words(recipe: Recipe) -> str:
    """A recipe in words."""
    drops = " and ".join(f"{drop:g}" for drop in recipe.drops)
    length = f"{recipe.epochs:g} epochs" + (
        f" shrunk or stretched to {recipe.steps} steps" if recipe.steps else ""
    )
    parts = [
        f"{recipe.optimizer} with momentum {recipe.momentum:g}, weight decay {recipe.weight_decay:g}",
        f"learning rate {recipe.learning_rate:g}"
        + (f" times {recipe.drop_factor:g} at epochs {drops}" if drops else ""),
        length,
        f"warm-up of {recipe.warmup:g} epochs" if recipe.warmup else "",
        f"batch {recipe.batch_size}",
        f"augmentation {recipe.augmentation}",
        recipe.precision,
    ]
    return ", ".join(filter(None, parts))


def data_words(spec: ChainSpec) -> str:
    """Where images come from in words."""
    return "the official files" if spec.loader is None else f"images of one's own, read as {spec.loader}"


def too_large_words(reason: ErrorRise) -> str:
    """Why a network is too large for its data, as text."""
    larger = {"depth": "deeper", "width": "wider"}[reason.axis]
    return (
        f"{larger} than {reason.axis} {reason.best:g} raises the unpruned error: {reason.best_error:.4f} there, "
        f"{reason.error:.4f} at {reason.axis} {reason.size:g} (tolerance {reason.tolerance:.4f})"
    )
