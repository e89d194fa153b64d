"""Whether a fitted law can be trusted, in one word and the numbers behind it."""

from dataclasses import dataclass
from enum import StrEnum

from prunecast.laws.law import Role
from prunecast.laws.predictive import predictive
from prunecast.laws.result import Fit

GOOD_RATIO, USABLE_RATIO = 1.5, 3.0
"""The largest deviation of a good law and of a usable law, as multiples of the noise."""
USABLE_SHARE = 0.75
"""The data determine at least this share of the parameters of a usable law."""
LARGEST_MISS = 0.5
"""A law that misses by more than this is unusable, however large the noise."""
RISE = {Role.PLATEAU, Role.SLOPE, Role.SCALE}
"""The roles of the parameters that describe the rise of a curve."""
END_OF_RISE = {Role.PLATEAU, Role.SCALE}
"""Where, and at which error, the rise ends; if no curve nears its high plateau, only a product of both is known."""


class Trust(StrEnum):
    """How far a law can be trusted."""

    GOOD = "good"
    USABLE = "usable"
    POOR = "poor"
    UNUSABLE = "unusable"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The verdict on a law, and why."""

    trust: Trust
    """good, usable, poor or unusable"""
    missed: float
    """rms deviation on configurations left out of the fit, or on the fitted ones if there are too few"""
    left_out: bool
    """whether `missed` is of configurations left out"""
    noise: float
    """the deviation that differences between training runs alone cause"""
    replicated: bool
    """whether replicates show the noise; else it is inferred from the roughness of the curves"""
    determined: int
    """parameters that the data determine"""
    parameters: int
    """parameters that were fitted"""

    @property
    def usable(self) -> bool:
        """Whether the law may answer at all."""
        return self.trust is not Trust.UNUSABLE


def verdict(fit: Fit) -> Verdict:
    """Judge a fit by its deviation relative to the noise, and by the parameters that its data determine."""
    left_out = fit.held_out.get(fit.family_law)
    missed = fit.deviation.rms if left_out is None else left_out
    noise = predictive(fit).scatter.noise if fit.noise_floor is None else fit.noise_floor.fit
    free = len(fit.parameters) - len(fit.fixed)
    determined = free - len(fit.undetermined)
    return Verdict(
        trust=_trust(fit, missed, noise, free),
        missed=missed,
        left_out=left_out is not None,
        noise=noise,
        replicated=fit.noise_floor is not None,
        determined=determined,
        parameters=free,
    )


def _trust(fit: Fit, missed: float, noise: float, free: int) -> Trust:
    unknown = [own.role for own in fit.form().parameters if own.name in fit.undetermined]
    if not fit.rises or set(unknown) >= RISE or missed > LARGEST_MISS:
        return Trust.UNUSABLE
    if missed <= GOOD_RATIO * noise and not unknown and fit.held_out:
        return Trust.GOOD
    missing = len(unknown) - (set(unknown) >= END_OF_RISE)
    enough = missing <= (1 - USABLE_SHARE) * free
    return Trust.USABLE if missed <= USABLE_RATIO * noise and enough else Trust.POOR
