"""What networks cost as the table says: bytes, latency, and multiply-adds where channels were removed.

A cost is known at the measured sizes and densities. Between densities log cost is interpolated over log density, and
below the lowest one it stays as it is there. The latency of other sizes is predicted where enough sizes were timed and
such predictions are good, or where the question names a size. Nothing is assumed of other costs, so other sizes are
left out.
"""

import numpy as np

from prunecast.choice.counts import SAME_COST, removes_channels
from prunecast.choice.latency import latency_predictor
from prunecast.choice.options import Options, size_line
from prunecast.choice.question import Measure, Question, as_measure
from prunecast.choice.sizes import Candidates
from prunecast.errors import PrunecastError
from prunecast.laws import Fit, Floats, Integers, Mask

COLUMNS = {
    Measure.BYTES: "bytes",
    Measure.LATENCY: "latency_ms",
    Measure.MULTIPLY_ADDS: "multiply_adds",
}


def from_table(fit: Fit, measure: Measure) -> bool:
    """Whether a measure is read off the table; multiply-adds are where they fall from level to level."""
    return removes_channels(fit) if measure is Measure.MULTIPLY_ADDS else measure in COLUMNS


def flat(fit: Fit, measure: Measure) -> bool:
    """Whether pruning changes nothing about a cost, as where single weights are pruned."""
    curves = [[cost for _, cost in c.costs.get(COLUMNS[measure], ())] for c in fit.configurations]
    return all(max(curve) <= min(curve) * (1 + SAME_COST) for curve in curves if curve)


def read_off(fit: Fit, question: Question) -> list[Measure]:
    """The measures of a question that only the table knows."""
    asked = [question.minimise, *([] if question.max_latency is None else [Measure.LATENCY])]
    return [measure for measure in dict.fromkeys(asked) if from_table(fit, measure)]


def with_costs(fit: Fit, networks: Candidates, question: Question) -> Candidates:
    """Those networks whose costs are known, as far as the question is about costs."""
    for measure in read_off(fit, question):
        known = _known(fit, measure, networks)
        predictor = latency_predictor(fit) if measure is Measure.LATENCY else None
        if predictor is not None and not (predictor.poor and known.any()):
            continue
        if not known.any():
            remedy = (
                "`prunecast time PLAN -o TABLE` writes one"
                if measure is Measure.LATENCY
                else "tables that `prunecast run` writes have one"
            )
            raise PrunecastError(
                f"{fit.origin.table} has no column {COLUMNS[measure]} on the rows of these networks, so their "
                f"{measure.value} is not known; {remedy}"
            )
        networks = networks[known]
    return networks


def _known(fit: Fit, measure: Measure, networks: Candidates) -> Mask:
    """Whether the table says what a network costs."""
    known = [index >= 0 and COLUMNS[measure] in fit.configurations[index].costs for index in networks.own]
    return np.array(known, dtype=bool)


def cost(fit: Fit, measure: Measure, networks: Candidates, density: Floats) -> Floats:
    """What each network costs at its density; NaN where it is neither in the table nor predicted."""
    found = np.full(len(networks), np.nan)
    for index in np.unique(networks.own[networks.own >= 0]):
        curve = fit.configurations[index].costs.get(COLUMNS[measure], ())
        if curve:
            at = networks.own == index
            there, values = np.log(np.array(curve)).T
            found[at] = np.exp(np.interp(np.log(density[at]), there, values))
    unknown = np.flatnonzero(np.isnan(found))
    predictor = latency_predictor(fit) if measure is Measure.LATENCY and len(unknown) else None
    if predictor is not None:
        some = networks[unknown]
        found[unknown] = predictor.model.predict(some.depth, some.width, density[unknown])
    return found


def latency_bound(fit: Fit, networks: Candidates, density: Floats, confidence: float) -> Floats:
    """The latency that each network stays below: as timed, or a predicted one with this probability."""
    found, predictor = cost(fit, Measure.LATENCY, networks, density), latency_predictor(fit)
    if predictor is not None:
        found = np.where(_known(fit, Measure.LATENCY, networks), found, found * predictor.factor(confidence))
    return found


def latency_interval(fit: Fit, networks: Candidates, density: Floats) -> tuple[float, float] | None:
    """The interval of the first network's latency, if it is predicted."""
    predictor = latency_predictor(fit)
    if predictor is None or _known(fit, Measure.LATENCY, networks)[0]:
        return None
    return predictor.interval(float(cost(fit, Measure.LATENCY, networks, density)[0]))


def size(fit: Fit, options: Options, measure: Measure) -> Floats:
    """The size of each pruned network in a measure."""
    if from_table(fit, measure):
        return cost(fit, measure, options.networks, options.density)
    return options.size(measure)


def sizes_at(fit: Fit, minimise: str, networks: Candidates, density: Floats) -> Floats:
    """The size of each network at its density in any measure; NaN where it is not known."""
    measure = as_measure(minimise)
    if from_table(fit, measure):
        return cost(fit, measure, networks, density)
    offset, slope = size_line(measure, networks)
    return np.asarray(offset + slope * density)


def known_measures(fit: Fit) -> list[Measure]:
    """Stored parameters, and the costs that the table knows and pruning changes."""
    known = [
        measure
        for measure in COLUMNS
        if from_table(fit, measure)
        and any(COLUMNS[measure] in c.costs for c in fit.configurations)
        and not flat(fit, measure)
    ]
    return [Measure.STORED, *known]


def highest_density(
    fit: Fit, measure: Measure, networks: Candidates, most: float, confidence: float = 0.5
) -> Floats:
    """The highest density of each network that costs no more than this; zero where none does.

    A latency that is predicted stays below with this probability.
    """
    found, known = np.zeros(len(networks)), _known(fit, measure, networks)
    grid = _densities(fit, measure)
    for place, index in enumerate(networks.own):
        if known[place]:
            there, values = np.log(np.array(fit.configurations[index].costs[COLUMNS[measure]])).T
        else:
            same: Integers = np.full(len(grid), place)
            there, values = np.log(grid), np.log(latency_bound(fit, networks[same], grid, confidence))
        rising = np.maximum.accumulate(values)
        budget = np.log(most) + 1e-12
        if rising[-1] <= budget:
            found[place] = 1.0
        elif rising[0] <= budget:
            above = int(np.searchsorted(rising, budget, side="right"))
            ends, sides = there[above - 1 : above + 1], rising[above - 1 : above + 1]
            found[place] = np.exp(ends[0] + (budget - sides[0]) / (sides[1] - sides[0]) * (ends[1] - ends[0]))
    return found


def _densities(fit: Fit, measure: Measure) -> Floats:
    """All densities at which a cost was measured, from the lowest up."""
    curves = [c.costs.get(COLUMNS[measure], ()) for c in fit.configurations]
    return np.array(sorted({density for curve in curves for density, _ in curve}))
