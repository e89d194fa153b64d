"""A law of your own: a Hill curve between the unpruned error and a high plateau.

Import this module, name it in PRUNECAST_PLUGINS, or say `--law hill_law:HILL`.
"""

from prunecast.laws import FormulaLaw, Parameter, Role, register


def hill(rows, high_error, gamma, p, phi, psi):
    """The error of every row: near `unpruned` where m* is far above p, near `high_error` far below it."""
    m = rows.depth**phi * rows.width**psi * rows.density
    return rows.unpruned + (high_error - rows.unpruned) / (1 + (m / p) ** gamma)


HILL = register(
    FormulaLaw(
        name="hill",
        title="the Hill law",
        equation="error = unpruned + (ε↑ − unpruned) / (1 + (m*/p)^γ),  m* = depth^φ · width^ψ · density",
        formula=hill,
        parameters=(
            Parameter(
                name="high_error",
                symbol="ε↑",
                meaning="error of the high plateau",
                lower=0.01,
                upper=1.0,
                start=0.9,
                role=Role.PLATEAU,
            ),
            Parameter(
                name="gamma",
                symbol="γ",
                meaning="steepness of the rise",
                lower=0.1,
                upper=10.0,
                role=Role.SLOPE,
            ),
            Parameter(
                name="p",
                symbol="p",
                meaning="m* half-way between the plateaus",
                lower=1e-6,
                upper=100.0,
                start=0.01,
                role=Role.SCALE,
            ),
            Parameter.exponent("phi", "φ", "depth"),
            Parameter.exponent("psi", "ψ", "width"),
        ),
    )
)
