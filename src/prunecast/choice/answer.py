"""The answer as a value: one network, its runners-up, and how the question was understood."""

from dataclasses import asdict, dataclass
from typing import Any

from prunecast.choice.naming import Naming
from prunecast.choice.spoken import speaker
from prunecast.text import plural


@dataclass(frozen=True, kw_only=True)
class Question:
    """What was asked; None where a bound was not given."""

    target_error: float | None = None
    max_parameters: float | None = None
    """in the measure that is minimised"""
    max_training: float | None = None
    """in trainings of the costliest measured network"""
    minimise: str
    confidence: float
    num_examples: float
    sizes: str
    depth: float | None = None
    """the only depth to consider"""
    width: float | None = None
    """the only width to consider"""
    density: float | None = None
    """the only density to consider"""


@dataclass(frozen=True, kw_only=True)
class Network:
    """One pruned network, how good and how large it is, and what it costs to get."""

    depth: float
    width: float
    num_examples: float
    density: float
    level: int
    error: float
    """as measured, or as the law estimates it"""
    expected_error: float
    """of a new training: that of a measured network with the luck of its training taken out"""
    interval: tuple[float, float]
    """in which 95% of new trainings fall"""
    probability: float | None
    """that a new training meets the target"""
    source: str
    """law, or measured where this very network was trained"""
    nonzero_parameters: float
    stored_parameters: float
    paper_size: float
    """l·w²·d"""
    multiply_adds: float | None
    unpruned_error: float
    unpruned_source: str
    """measured, or predicted by the dense law"""
    expected_unpruned_error: float
    """what the law is given: a measured one with the luck of its trainings taken out"""
    extrapolated: bool
    """whether depth, width and number of examples, two at a time, or the density lie outside what was measured"""
    trainings: int
    training_cost: float
    """in trainings of the costliest measured network: trainings × multiply-adds × examples, relative"""
    network_epochs: float | None
    """trainings × epochs, where the recipe's epochs are known"""

    @property
    def span(self) -> str:
        """The interval in words."""
        return f"{self.interval[0]:.4f} to {self.interval[1]:.4f}"


@dataclass(frozen=True, kw_only=True)
class Matching:
    """The smallest network that meets the target unpruned, the usual one to prune."""

    depth: float
    width: float
    unpruned_error: float
    unpruned_size: float
    """in the measure that is minimised"""
    pruned_size: float
    """the same network pruned as far as the target allows"""
    times_smaller: float
    """its pruned size over the answer's"""


@dataclass(frozen=True, kw_only=True, repr=False)
class Choice:
    """Which network to train and how far to prune it."""

    law: str
    table: str
    metric: str
    """what `error` and `target_error` mean: error, validation_error or loss"""
    question: Question
    met: bool
    """whether the target is met; if not, `answer` is the best that is possible"""
    answer: Network
    runners_up: tuple[Network, ...]
    matching: Matching | None
    further: Network | None = None
    """the best network beyond what was measured that is predicted to meet the target, where none within does"""
    notes: tuple[str, ...]
    naming: Naming
    """the axes and the unit of size that the table tells"""

    def __str__(self) -> str:
        """The answer in two sentences."""
        return f"{self.advice} {self.promise}"

    def __repr__(self) -> str:
        """A line for who asks at a prompt; every field is there by its name."""
        return f"<Choice by {self.law} from {self.table}: {self}>"

    @property
    def advice(self) -> str:
        """What to train and how far to prune it."""
        best, target = self.answer, self.question.target_error
        network = self.naming.network(best.depth, best.width)
        density = f"to density {best.density:.4g} ({plural(best.level, 'level')})"
        if target is not None and not self.met:
            pruned = f"pruned {density}" if best.level else "not pruned"
            return f"The target of {target:g} is not met; closest is {network}, {pruned}."
        return f"Train {network}, and " + (f"prune {density}." if best.level else "do not prune it.")

    @property
    def promise(self) -> str:
        """How good that network will be."""
        best, target = self.answer, self.question.target_error
        how = "was measured at" if best.source == "measured" else "gets about"
        gets = speaker(self.metric)(f"It {how} error {best.error:.4f}")
        if target is not None and best.source == "measured" and (best.error <= target) != self.met:
            gets = f"{gets}, and about {best.expected_error:.4f} is expected of a new training"
        words = f"{gets}; 95% of new trainings fall in {best.span}"
        if target is None or not self.met:
            return f"{words}."
        return f"{words}, and {best.probability:.0%} of them meet the target of {target:g}."

    def as_json(self) -> dict[str, Any]:
        """The answer's numbers at the top, the rest beside them."""
        body = asdict(self)
        return {**body.pop("answer"), **body}
