"""Pruning methods: criterion × structure × schedule, and how the remaining weights are retrained.

The criteria, structures and schedules themselves are in `prunecast.pruning`; a method only names them, so that a plan
can be read without torch.
"""

from dataclasses import dataclass, fields
from typing import Literal

from prunecast.errors import require, require_number, require_one_of, require_text
from prunecast.plugins import require_registered
from prunecast.text import plain_count

Part = Literal["score", "structure", "schedule"]
Retraining = Literal["weight-rewinding", "rate-rewinding", "fine-tuning", "from-start"]
Measure = Literal["units", "parameters", "multiply-adds"]

RETRAININGS: tuple[Retraining, ...] = ("weight-rewinding", "rate-rewinding", "fine-tuning", "from-start")
MEASURES: tuple[Measure, ...] = ("units", "parameters", "multiply-adds")
NORM_SCALE = "norm-scale"
AFTER_TRAINING = (
    *("magnitude", "layerwise-magnitude", "squared-magnitude", NORM_SCALE, "taylor", "random", "none"),
)
"""Built-in criteria that score a trained network."""
BEFORE_TRAINING = ("synflow",)
"""Built-in criteria that score the untrained network."""
CHANNELS = "channels"
"""The structure that removes whole channels, hidden units and attention heads."""

METHOD_NAMES: dict[Part, list[str]] = {
    "score": [*AFTER_TRAINING, *BEFORE_TRAINING],
    "structure": ["weights", CHANNELS, "2:4"],
    "schedule": ["constant"],
}
"""What methods may name besides `package.module:attribute`; registering in `prunecast.pruning` adds to it."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """A pruning method. `score`, `structure` and `schedule` may be your own, as `package.module:attribute`."""

    name: str
    """What tables call this method; it does not change the numbers."""
    score: str = "magnitude"
    """The criterion: weights with the lowest score are pruned first; `none` prunes nothing and only retrains."""
    fraction: float = 0.2
    """The share of what remains that each level removes (schedule `constant`)."""
    retraining: Retraining = "weight-rewinding"
    """Where each level starts: at rewound weights, at the last weights, or at the beginning."""
    substeps: int = 100
    """`from-start` only: the number of pruning steps between the full network and a level's density."""
    structure: str = "weights"
    """What is removed together: `weights` removes single weights, `channels` whole channels and hidden units, `2:4` or
    another `N:M` one weight per level of each group of M, until N are left."""
    schedule: str = "constant"
    """The share that each level removes; `constant` is `fraction` at every level."""
    fraction_of: Measure = "units"
    """Structure `channels` only: what the fraction is a share of."""

    def __post_init__(self) -> None:
        """Refuse a method that cannot be run."""
        place = f"Method {self.name!r}:"
        require_text(f"{place} name", self.name)
        for part, known in METHOD_NAMES.items():
            require_registered(f"{place} {part}", getattr(self, part), known)
        self._check_groups(place)
        require_one_of(f"{place} retraining", self.retraining, RETRAININGS)
        require_number(f"{place} fraction", self.fraction)
        require_number(f"{place} substeps", self.substeps, whole=True)
        require(0 < self.fraction < 1, f"{place} fraction is {self.fraction}; give a number between 0 and 1.")
        require(self.substeps > 0, f"{place} substeps is {self.substeps}; give a positive number.")
        require_one_of(f"{place} fraction_of", self.fraction_of, MEASURES)
        require(
            self.fraction_of == "units" or self.structure == CHANNELS,
            f"{place} fraction_of {self.fraction_of} needs structure = {CHANNELS!r}.",
        )
        require(
            self.score != NORM_SCALE or self.structure == CHANNELS,
            f"{place} score {NORM_SCALE} compares whole channels; give structure = {CHANNELS!r}.",
        )
        wrong = BEFORE_TRAINING if not self.before_training else AFTER_TRAINING
        require(
            self.score not in wrong,
            f"{place} score synflow and retraining from-start belong together, because SynFlow prunes "
            "before training; for magnitudes give the recipe rewind = 0 instead.",
        )

    def _check_groups(self, place: str) -> None:
        """Refuse an N:M that keeps nothing or everything, and what has no meaning with it."""
        if (pair := n_of_m(self.structure)) is None:
            numbers = all(part.isdecimal() for part in self.structure.split(":"))
            require(
                not numbers,
                f"{place} structure is {self.structure[:20]!r}; give N:M, two whole numbers of at most six digits, "
                "such as 2:4.",
            )
            return
        keep, group = pair
        require(
            0 < keep < group,
            f"{place} structure {self.structure} keeps {keep} of each {group} weights; give N:M with N at least 1 "
            "and less than M, such as 2:4.",
        )
        defaults = {field.name: field.default for field in fields(self)}
        for name in ("fraction", "schedule"):
            require(
                getattr(self, name) == defaults[name],
                f"{place} structure {self.structure} removes one of each {group} weights per level; leave {name} out.",
            )

    @property
    def before_training(self) -> bool:
        """Whether each level prunes the untrained network, independently of the other levels."""
        return self.retraining == "from-start"

    @property
    def prunes(self) -> bool:
        """Whether this method removes any weights."""
        return self.score != "none"


def n_of_m(structure: str) -> tuple[int, int] | None:
    """N and M of a structure `N:M`; None of other structures."""
    keep, _, group = map(plain_count, structure.partition(":"))
    return None if keep is None or group is None else (keep, group)


_METHODS = (
    Method(name="imp"),
    Method(name="imp-layerwise", score="layerwise-magnitude"),
    Method(name="imp-rate-rewinding", retraining="rate-rewinding"),
    Method(name="imp-fine-tuning", retraining="fine-tuning"),
    Method(name="imp-channels", structure=CHANNELS),
    Method(name="imp-2:4", structure="2:4"),
    Method(name="random", score="random"),
    Method(name="none", score="none"),
    Method(name="synflow", score="synflow", retraining="from-start"),
)
METHODS = {method.name: method for method in _METHODS}


def method(name: str) -> Method:
    """The method of this name."""
    require_one_of("Method", name, METHODS)
    return METHODS[name]
