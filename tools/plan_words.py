"""What was trained, in words: the provenance of a table that ships."""

from collections.abc import Sequence

from prunecast.spec import CHANNELS, ChainSpec, Recipe, n_of_m


def sizes_words(specs: Sequence[ChainSpec]) -> str:
    """Depths, widths and numbers of examples."""
    axes = (
        ("depths", sorted({spec.depth for spec in specs})),
        ("widths", sorted({spec.width for spec in specs})),
        ("examples", sorted({spec.num_examples for spec in specs})),
    )
    return "; ".join(f"{name} {', '.join(f'{value:,g}' for value in values)}" for name, values in axes)


def method_words(spec: ChainSpec) -> str:
    """What each level of a pruning method does."""
    method, rewind = spec.method, f"epoch {spec.recipe.rewind:g}"
    which = {
        "magnitude": "the smallest in the whole network",
        "layerwise-magnitude": "the smallest in each layer",
        "synflow": "those with the least synaptic flow",
        "random": "chosen at random",
    }
    from_file = spec.start is not None and (spec.start_trained or not spec.recipe.rewind)
    weights = "the starting weights" if from_file else rewind
    then = {
        "weight-rewinding": f"rewinds the rest to {weights}",
        "rate-rewinding": f"continues training with the learning rates from {rewind}",
        "fine-tuning": "continues training with the last learning rate",
        "from-start": "trains from the beginning",
    }[method.retraining]
    if not method.prunes:
        return f"no weights are removed; each level {then}"
    if (pair := n_of_m(method.structure)) is not None:
        keep, group = pair
        lowest = {"magnitude": "smallest", "random": "one drawn at random"}.get(
            method.score, f"one with the lowest {method.score} score"
        )
        return (
            f"each level removes one of every {group} weights along the inputs of a layer, the {lowest}, until {keep} "
            f"are left, and {then}"
        )
    share = f"{100 * method.fraction:g}%" if method.schedule == "constant" else f"a share ({method.schedule})"
    units = {"weights": "weights", CHANNELS: "channels"}.get(method.structure, f"units ({method.structure})")
    if method.fraction_of != "units":
        units = f"{method.fraction_of} by whole channels"
    those = which.get(method.score, f"those with the lowest {method.score} score")
    return f"each level removes {share} of the remaining {units} ({those}) and {then}"


def recipe_words(recipe: Recipe) -> str:
    """A training recipe."""
    spared = " except on norms and biases" if recipe.weight_decay_on == "weights" else ""
    clip = recipe.gradient_clip
    parts = [
        f"{recipe.optimizer} with momentum {recipe.momentum:g}, weight decay {recipe.weight_decay:g}{spared}",
        f"learning rate {recipe.learning_rate:g}{_schedule_words(recipe)}",
        f"{recipe.epochs:g} epochs" + (f" scaled to {recipe.steps} steps" if recipe.steps else ""),
        f"warm-up of {recipe.warmup:g} epochs" if recipe.warmup else "",
        f"batch {recipe.batch_size}",
        f"loss {recipe.loss}" if recipe.loss != "cross-entropy" else "",
        f"label smoothing {recipe.label_smoothing:g}" if recipe.label_smoothing else "",
        f"gradients clipped to a norm of {clip:g}" if clip is not None else "",
        f"augmentation {recipe.augmentation}",
        recipe.precision,
        "initial weights of the model function" if recipe.initial_weights == "own" else "",
    ]
    return ", ".join(filter(None, parts))


def _schedule_words(recipe: Recipe) -> str:
    """How the learning rate changes after its peak, or up to it."""
    if recipe.schedule != "step":
        end = f" down to {recipe.final_learning_rate:g}" if ":" not in recipe.schedule else ""
        return f" with the schedule {recipe.schedule}{end}"
    drops = " and ".join(f"{drop:g}" for drop in recipe.drops)
    return f", multiplied by {recipe.drop_factor:g} at epochs {drops}" if drops else ""


def data_words(spec: ChainSpec) -> str:
    """Where the images come from."""
    return "the official files" if spec.loader is None else f"your own images, read as {spec.loader}"
