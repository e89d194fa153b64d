"""Recipes: everything about a training run except the network and the data; includes those of the paper's appendix B.

The optimizers, learning-rate schedules and losses themselves are in `prunecast.training`; a recipe only names them, so
that a plan can be read without torch.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal, Self

from prunecast.errors import require, require_known_keys, require_number, require_one_of, require_text
from prunecast.plugins import require_registered

RecipePart = Literal["optimizer", "schedule", "loss"]
Decayed = Literal["all", "weights"]
InitialWeights = Literal["he-uniform", "own"]
ANNEALED = ("cosine", "one-cycle")
"""Built-in schedules that end at `final_learning_rate`."""
RECIPE_NAMES: dict[RecipePart, list[str]] = {
    "optimizer": ["sgd", "adam", "adamw"],
    "schedule": ["step", *ANNEALED],
    "loss": ["cross-entropy"],
}
"""What recipes may name besides `package.module:attribute`; registering in `prunecast.training` adds to it."""
Precision = Literal["fp32", "tf32", "bf16"]
Augmentation = Literal["flip-shift", "resized-crop", "none"]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One way of training; `drops`, `warmup` and `rewind` are given in epochs."""

    name: str
    """What tables call this recipe; it does not change the numbers."""
    epochs: float
    """Length of a training run in passes over the examples."""
    learning_rate: float
    """The peak learning rate."""
    batch_size: int
    """Examples per step, or all of them if there are fewer."""
    drops: tuple[float, ...] = ()
    """Schedule `step`: epochs at which the learning rate is multiplied by `drop_factor`."""
    rewind: float = 0.0
    """The epoch to which weights or learning rate are rewound before retraining."""
    warmup: float = 0.0
    """Epochs over which the learning rate rises linearly from zero."""
    drop_factor: float = 0.1
    """The factor by which a drop multiplies the learning rate."""
    initial_weights: InitialWeights = "he-uniform"
    """he-uniform draws new ones, as in the paper; own keeps those that your model function makes. Every replicate has
    random numbers of its own."""
    optimizer: str = "sgd"
    """sgd (with momentum), adam, adamw, or your own as `package.module:attribute`."""
    momentum: float = 0.9
    """Momentum of SGD; the decay of Adam's first moment."""
    second_momentum: float = 0.999
    """The decay of Adam's second moment."""
    weight_decay: float = 1e-4
    """This times the parameter is added to its gradient; adamw takes this times the learning rate off the parameter."""
    weight_decay_on: Decayed = "all"
    """all parameters, or only weights: norms and biases then do not decay."""
    schedule: str = "step"
    """The learning rate over the training run: step, cosine, one-cycle, or your own as `package.module:function`."""
    final_learning_rate: float = 0.0
    """Schedules cosine and one-cycle: the learning rate at the end, which fine-tuning continues with."""
    gradient_clip: float | None = None
    """The largest norm of the gradient over all parameters; a longer gradient is scaled to it. None clips nothing."""
    loss: str = "cross-entropy"
    """What is minimised: cross-entropy, or your own as `package.module:function`."""
    label_smoothing: float = 0.0
    """The share of the label's probability that is spread evenly over all classes (cross-entropy)."""
    augmentation: Augmentation = "none"
    """flip-shift, resized-crop or none."""
    precision: Precision = "fp32"
    """fp32, tf32, or bf16 (autocast, parameters stay float32)."""
    steps: int | None = None
    """A fixed number of steps instead of `epochs`; drops, warm-up and rewind point scale with it."""
    validation_examples: int = 0
    """Training examples held out for `validation_error`; the subsample is drawn from the rest."""
    checkpoint_steps: int = 4000
    """Steps between checkpoints within a level; it does not change the numbers."""

    def __post_init__(self) -> None:
        """Refuse a recipe that cannot be trained."""
        place = f"Recipe {self.name!r}:"
        for part, known in RECIPE_NAMES.items():
            require_registered(f"{place} {part}", getattr(self, part), known)
        require_one_of(f"{place} initial_weights", self.initial_weights, ("he-uniform", "own"))
        require_one_of(f"{place} weight_decay_on", self.weight_decay_on, ("all", "weights"))
        require_one_of(f"{place} precision", self.precision, ("fp32", "tf32", "bf16"))
        require_one_of(f"{place} augmentation", self.augmentation, ("flip-shift", "resized-crop", "none"))
        self._check_types(place)
        for field in ("epochs", "learning_rate", "batch_size", "checkpoint_steps", "drop_factor"):
            value = getattr(self, field)
            require(value > 0, f"{place} {field} is {value}; give a positive number.")
        for field in ("momentum", "second_momentum"):
            value = getattr(self, field)
            require(0 <= value < 1, f"{place} {field} is {value}; give a number from 0 to below 1.")
        require(self.weight_decay >= 0, f"{place} weight_decay is {self.weight_decay}; give 0 or more.")
        self._check_parts(place)
        require(self.validation_examples >= 0, f"{place} validation_examples must be 0 or more.")
        require(
            self.steps is None or self.steps > 0, f"{place} steps is {self.steps}; give a positive number."
        )
        for field, positions in (
            ("drops", self.drops),
            ("rewind", (self.rewind,)),
            ("warmup", (self.warmup,)),
        ):
            inside = all(0 <= position <= self.epochs for position in positions)
            require(inside, f"{place} {field} must lie between 0 and its {self.epochs:g} epochs.")

    def _check_parts(self, place: str) -> None:
        """Refuse values out of range, and those that belong to another schedule or loss."""
        clip, smoothing, final = self.gradient_clip, self.label_smoothing, self.final_learning_rate
        require(clip is None or clip > 0, f"{place} gradient_clip is {clip}; give a positive number.")
        require(
            0 <= smoothing < 1, f"{place} label_smoothing is {smoothing}; give a number from 0 to below 1."
        )
        require(
            0 <= final <= self.learning_rate,
            f"{place} final_learning_rate is {final:g}; give a number from 0 to its learning_rate, "
            f"{self.learning_rate:g}.",
        )
        require(
            not self.drops or self.schedule not in ANNEALED,
            f"{place} drops belong to the schedule step, not to {self.schedule}; remove them.",
        )
        require(
            not final or self.schedule != "step",
            f"{place} final_learning_rate belongs to the schedules {' and '.join(ANNEALED)}; remove it, or choose one.",
        )
        require(
            not smoothing or self.loss == "cross-entropy",
            f"{place} label_smoothing belongs to the loss cross-entropy; let {self.loss} smooth labels itself.",
        )

    def _check_types(self, place: str) -> None:
        require_text(f"{place} name", self.name)
        listed = isinstance(self.drops, tuple)
        require(listed, f"{place} drops is {self.drops!r}; give a list of numbers.")
        for field in ("epochs", "learning_rate", "drop_factor", "rewind", "warmup", "weight_decay"):
            require_number(f"{place} {field}", getattr(self, field))
        for field in ("momentum", "second_momentum", "label_smoothing", "final_learning_rate"):
            require_number(f"{place} {field}", getattr(self, field))
        if self.gradient_clip is not None:
            require_number(f"{place} gradient_clip", self.gradient_clip)
        for field in ("batch_size", "checkpoint_steps", "validation_examples"):
            require_number(f"{place} {field}", getattr(self, field), whole=True)
        for drop in self.drops:
            require_number(f"{place} a drop", drop)
        if self.steps is not None:
            require_number(f"{place} steps", self.steps, whole=True)

    def lasting(self, epochs: float) -> Self:
        """The same recipe over another number of epochs; drops, warm-up and rewind point scale with it."""
        share = epochs / self.epochs
        drops = tuple(drop * share for drop in self.drops)
        return dataclasses.replace(
            self, epochs=epochs, drops=drops, warmup=self.warmup * share, rewind=self.rewind * share
        )

    def changed(self, changes: dict[str, Any], place: str = "The recipe") -> Self:
        """This recipe with some fields changed; `epochs` rescales, and the name lists the changes.

        A schedule without drops removes the preset's drops.
        """
        valid = [field.name for field in dataclasses.fields(self)]
        require_known_keys(place, changes, valid)
        require_number(f"{place}: epochs", changes.get("epochs", self.epochs))
        rescaled = self.lasting(changes["epochs"]) if "epochs" in changes else self
        others: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in changes.items()
        }
        if changes.get("schedule") in ANNEALED:
            others.setdefault("drops", ())
        unnamed = [key for key in changes if key not in ("name", "checkpoint_steps")]
        others.setdefault("name", "+".join([self.name, *(f"{key}={_word(changes[key])}" for key in unnamed)]))
        return dataclasses.replace(rescaled, **others)


def _word(value: object) -> str:
    if isinstance(value, list | tuple):
        return "/".join(map(_word, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


_CIFAR10 = Recipe(
    name="cifar10",
    epochs=160,
    learning_rate=0.1,
    batch_size=128,
    drops=(80, 120),
    rewind=10,
    augmentation="flip-shift",
)
_IMAGENET = Recipe(
    name="imagenet",
    epochs=90,
    learning_rate=0.4,
    batch_size=1024,
    drops=(30, 60, 80),
    rewind=10,
    warmup=5,
    augmentation="resized-crop",
)
_SVHN = dataclasses.replace(_CIFAR10, name="svhn", augmentation="none")

_RECIPES = (
    _CIFAR10,
    dataclasses.replace(_CIFAR10, name="cifar100"),
    _SVHN,
    dataclasses.replace(_CIFAR10, name="cifar10-densenet", epochs=200, drops=(130, 165)),
    dataclasses.replace(_SVHN, name="svhn-densenet", epochs=100, drops=(70, 85)),
    _IMAGENET,
    dataclasses.replace(_IMAGENET, name="tinyimagenet", epochs=200, drops=(100, 150), learning_rate=0.2),
    # An eighth of cifar10, in proportion.
    Recipe(name="digits", epochs=20, learning_rate=0.1, batch_size=32, drops=(10, 15), rewind=1.25),
)
RECIPES = {recipe.name: recipe for recipe in _RECIPES}


def recipe(name: str) -> Recipe:
    """The preset recipe of this name."""
    require_one_of("recipe", name, RECIPES)
    return RECIPES[name]
