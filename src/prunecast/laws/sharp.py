"""Laws whose bends are as sharp as the data show, where Eq. 2 has the sharpness 2.

The bends between the plateaus and the power law are sharper than Eq. 2 can be on some datasets and softer on others.
With the sharpness s in place of the exponent 2, and of the 2 in γ/2, the slope of the power law is γ as before.
"""

from dataclasses import dataclass

from prunecast.laws import dip, eq2
from prunecast.laws.dip import DipLaw
from prunecast.laws.eq2 import SHARPNESS, Eq2Law
from prunecast.laws.law import Parameter, PruningForm, register
from prunecast.laws.points import Points

PARAMETER = Parameter(
    name=SHARPNESS,
    symbol="s",
    meaning="sharpness of the bends; 2 in Eq. 2",
    lower=0.5,
    upper=8.0,
    start=2.0,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class SharpLaw(Eq2Law):
    """Eq. 2 with a sharpness of its own, and with dataset size in the invariant where it varies enough."""

    def form(self, points: Points, metric: str) -> PruningForm:
        """The parameters that the points can determine."""
        shared, axes = eq2.parameter_ranges(points, metric)
        nu = dip.examples_exponent(points)
        return self.build((*shared, *nu, PARAMETER), (*axes, *(one.axis for one in nu)))


@dataclass(frozen=True, kw_only=True, eq=False)
class SharpDipLaw(DipLaw):
    """The dip law with a sharpness of its own."""

    def form(self, points: Points, metric: str) -> PruningForm:
        """The parameters that the points can determine."""
        plain = super().form(points, metric)
        return self.build((*plain.parameters, PARAMETER), plain.axes)


register(
    SharpLaw(
        name="sharp",
        title="the sharp law",
        parameters=(*eq2.PARAMETERS, dip.EXAMPLES_EXPONENT, PARAMETER),
    )
)
register(
    SharpDipLaw(
        name="sharp-dip",
        title="the sharp dip law",
        parameters=(*dip.PARAMETERS, PARAMETER),
        dips=True,
    )
)
