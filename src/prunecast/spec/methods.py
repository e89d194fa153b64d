"""Pruning methods: which weights are removed (score), how many per level, and how the rest is retrained."""

from dataclasses import dataclass
from typing import Literal

from prunecast.errors import require, require_number, require_one_of, require_text

Score = Literal["magnitude", "layerwise-magnitude", "random", "none", "synflow"]
Retraining = Literal["weight-rewinding", "rate-rewinding", "fine-tuning", "from-start"]

SCORES: tuple[Score, ...] = ("magnitude", "layerwise-magnitude", "random", "none", "synflow")
RETRAININGS: tuple[Retraining, ...] = ("weight-rewinding", "rate-rewinding", "fine-tuning", "from-start")


@dataclass(frozen=True, kw_only=True)
class Method:
    """A pruning method: score × fraction per level × retraining."""

    name: str
    """What tables call this method; it does not change the numbers."""
    score: Score = "magnitude"
    """Weights with the lowest score are pruned first; `none` prunes nothing and only retrains."""
    fraction: float = 0.2
    """The share of the remaining weights that each level removes."""
    retraining: Retraining = "weight-rewinding"
    """Where each level starts: at rewound weights, at the last weights, or (SynFlow) at the beginning."""
    substeps: int = 100
    """SynFlow only: the number of pruning steps between the full network and a level's density."""

    def __post_init__(self) -> None:
        """Refuse a method that cannot be run."""
        place = f"Method {self.name!r}:"
        require_one_of(f"{place} score", self.score, SCORES)
        require_one_of(f"{place} retraining", self.retraining, RETRAININGS)
        require_text(f"{place} name", self.name)
        require_number(f"{place} fraction", self.fraction)
        require_number(f"{place} substeps", self.substeps, whole=True)
        require(0 < self.fraction < 1, f"{place} fraction is {self.fraction}; give a number between 0 and 1.")
        require(self.substeps > 0, f"{place} substeps is {self.substeps}; give a positive number.")
        require(
            self.before_training == (self.score == "synflow"),
            f"{place} score synflow and retraining from-start belong together, because SynFlow prunes "
            "before training; for magnitudes give the recipe rewind = 0 instead.",
        )

    @property
    def before_training(self) -> bool:
        """Whether each level prunes the untrained network, independently of the other levels."""
        return self.retraining == "from-start"


_METHODS = (
    Method(name="imp"),
    Method(name="imp-layerwise", score="layerwise-magnitude"),
    Method(name="imp-rate-rewinding", retraining="rate-rewinding"),
    Method(name="imp-fine-tuning", retraining="fine-tuning"),
    Method(name="random", score="random"),
    Method(name="none", score="none"),
    Method(name="synflow", score="synflow", retraining="from-start"),
)
METHODS = {method.name: method for method in _METHODS}


def method(name: str) -> Method:
    """The method of this name."""
    require_one_of("Method", name, METHODS)
    return METHODS[name]
