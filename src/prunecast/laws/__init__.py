"""Laws of pruning: fit them, judge them, predict with them, compare them, and add your own.

`law` holds the contract that every law fulfils, `formula_law` how to add one from a formula; `eq2` has
the laws that come with the package.
"""

from prunecast.laws import findings, formulas, solver, validate
from prunecast.laws.dense import DenseLaw, fit_dense
from prunecast.laws.deviations import (
    HIGH_EDGE,
    LOW_EDGE,
    REGIONS,
    Deviation,
    NoiseFloor,
    by_group,
    deviation,
    region,
    relative,
)
from prunecast.laws.diagnose import power_law_seen
from prunecast.laws.eq2 import EQ1 as SINGLE_LAW
from prunecast.laws.fitted import Configuration
from prunecast.laws.fitting import SingleFit, fit, fit_each, log_plateau
from prunecast.laws.formula_law import Formula, FormulaLaw, Rows
from prunecast.laws.intervals import COVERAGE
from prunecast.laws.law import (
    AUTO,
    DEFAULT_LAW,
    Law,
    Parameter,
    PruningForm,
    Role,
    bounds,
    build_form,
    get_law,
    natural,
    register,
    selectable_laws,
    starts,
    unregister,
)
from prunecast.laws.points import AXES, CostCurves, Floats, Integers, Mask, Points, UntrainedSize, measured
from prunecast.laws.predict import Prediction
from prunecast.laws.predictive import average, predictive, query
from prunecast.laws.result import Fit, from_json, load
from prunecast.laws.rivals import Rival, rivals
from prunecast.laws.sizes import SizeCurve, counted_family, member_counts, size_of
from prunecast.laws.solver import solve, solve_parts
from prunecast.laws.support import (
    SLACK,
    below,
    gaps,
    measured_at,
    measured_sizes,
    never_varied,
    outside,
)
from prunecast.laws.validate import (
    Comparison,
    Score,
    Split,
    compare,
    configurations_out,
    held_out_deviations,
    in_sample,
)
from prunecast.laws.verdict import Trust, Verdict, verdict

__all__ = [
    "AUTO",
    "AXES",
    "COVERAGE",
    "DEFAULT_LAW",
    "HIGH_EDGE",
    "LOW_EDGE",
    "REGIONS",
    "SINGLE_LAW",
    "SLACK",
    "Comparison",
    "Configuration",
    "CostCurves",
    "DenseLaw",
    "Deviation",
    "Fit",
    "Floats",
    "Formula",
    "FormulaLaw",
    "Integers",
    "Law",
    "Mask",
    "NoiseFloor",
    "Parameter",
    "Points",
    "Prediction",
    "PruningForm",
    "Rival",
    "Role",
    "Rows",
    "Score",
    "SingleFit",
    "SizeCurve",
    "Split",
    "Trust",
    "UntrainedSize",
    "Verdict",
    "average",
    "below",
    "bounds",
    "build_form",
    "by_group",
    "compare",
    "configurations_out",
    "counted_family",
    "deviation",
    "findings",
    "fit",
    "fit_dense",
    "fit_each",
    "formulas",
    "from_json",
    "gaps",
    "get_law",
    "held_out_deviations",
    "in_sample",
    "load",
    "log_plateau",
    "measured",
    "measured_at",
    "measured_sizes",
    "member_counts",
    "natural",
    "never_varied",
    "outside",
    "power_law_seen",
    "predictive",
    "query",
    "region",
    "register",
    "relative",
    "rivals",
    "selectable_laws",
    "size_of",
    "solve",
    "solve_parts",
    "solver",
    "starts",
    "unregister",
    "validate",
    "verdict",
]
