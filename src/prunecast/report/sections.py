"""The sections that explain the fit: how good it is, its parameters in words, the invariant, what is not known."""

from collections.abc import Sequence

import numpy as np

from prunecast import __version__, tables
from prunecast.laws import Fit
from prunecast.laws.words import MEANING
from prunecast.report import charts, words
from prunecast.report.curves import Curve, Rows
from prunecast.report.parts import Chart, Grid, Section
from prunecast.table import Table
from prunecast.wording import sentences

UNKNOWN = ("undetermined", "weak", "bound", "flat", "few", "outside")
"""Kinds of notes that say what the data cannot tell."""


def fit_section(fit: Fit, measured: Rows, own: charts.Hue) -> Section:
    """Estimated against actual, μ, σ and the noise floor."""
    floor = fit.noise_floor
    noise = ("Noise floor", "unknown", "needs a second replicate")
    if floor is not None:
        remark = f"σ that noise alone leaves; single trainings scatter by {words.percent(floor.replicate)}"
        noise = ("Noise floor", words.percent(floor.fit), remark)
    regions = [[name, *_deviation(one)] for name, one in fit.regions.items() if one.rows]
    configurations = [
        [
            words.size(c.depth),
            words.size(c.width),
            words.count(c.num_examples),
            words.error(c.unpruned_error),
            *_deviation(c.deviation),
        ]
        for c in fit.configurations
    ]
    return Section(
        name="fit",
        title="How well the law fits",
        text=[
            "Each dot is a trained network. Were the law exact, all would lie on the diagonal. The deviation is "
            "(estimate − measured) / measured; μ is its mean, σ its standard deviation."
        ],
        tiles=[
            ("μ", words.percent(fit.deviation.mean, sign=True), "mean deviation"),
            ("σ", words.percent(fit.deviation.std), f"over {words.plural(fit.rows, 'row')}"),
            noise,
        ],
        charts=[
            Chart(
                name="fitted",
                spec=charts.fit_chart(measured, fit, own, fit.metric),
                caption=f"Estimated against measured error, {words.plural(len(measured), 'network')}.",
            )
        ],
        grids=[
            Grid(header=["Region", "μ", "σ", "Rows"], rows=regions),
            Grid(
                header=["Depth", "Width", "Examples", "Unpruned error", "μ", "σ", "Rows"],
                rows=configurations,
                left=0,
                caption=f"Each of {words.plural(len(fit.configurations), 'configuration')}",
                folded=True,
            ),
        ],
        notes=[note.text for note in fit.notes if note.kind in ("miss", "dip", "preference")],
        beside=True,
    )


def _deviation(own: object) -> list[str]:
    mean, std, rows = (getattr(own, name) for name in ("mean", "std", "rows"))
    return [words.percent(mean, sign=True), words.percent(std), f"{rows:,}"]


def parameters_section(fit: Fit) -> Section:
    """The parameters with intervals, and what each one means for pruning."""
    rows = []
    for name, value in fit.parameters.items():
        symbol, meaning = MEANING.get(name, (name, ""))
        low, high = fit.intervals[name]
        span = "held" if name in fit.fixed else f"{words.number(low)} – {words.number(high)}"
        remark = " (not determined)" if name in fit.undetermined else ""
        rows.append([symbol, meaning + remark, words.number(value), span])
    return Section(
        name="parameters",
        title="The law in numbers and in words",
        text=[f"{words.sentence(words.LAWS[fit.law])}, fitted to {fit.origin.table}:"],
        grids=[Grid(header=["", "Parameter", "Estimate", "95% interval"], rows=rows, left=2)],
        notes=list(in_words(fit)),
        beside=True,
    )


def in_words(fit: Fit) -> list[str]:
    """What the parameters say about pruning, as sentences with numbers that Python worked out."""
    own = fit.parameters
    steeper = float(np.expm1(own["gamma"] * np.log(2)))
    guess = {name: ", which the data do not determine" if name in fit.undetermined else "" for name in own}
    said = [
        f"Pruned without end, every network ends at an error of ε↑ = {words.error(own['high_error'])}."
        if not guess["high_error"]
        else "At which error networks end that are pruned without end, the data do not tell: "
        f"ε↑ = {words.error(own['high_error'])} is a guess.",
        f"In the power-law region halving the density raises the error by {words.percent(steeper, digits=0)} "
        f"(2^γ with γ = {words.number(own['gamma'])}{guess['gamma']}).",
    ]
    for name, what in (("psi", "width"), ("phi", "depth"), ("nu", "number of training examples")):
        if name in own:
            share = float(np.exp2(-own[name]))
            change = "more deeply: to" if share < 1 else "less deeply: to"
            said.append(
                f"A network of twice the {what} keeps its error when pruned {change} {words.number(share)} of the "
                f"density ({MEANING[name][0]} = {words.number(own[name])}{guess[name]})."
            )
    if "psi" in own and not guess["psi"]:
        said.append(_trade(own["psi"]))
    if own.get("dip", 0.0) > 0 and not guess["dip"]:
        said.append(
            f"Light pruning lowers the error by up to {words.percent(own['dip'], digits=0)} of its unpruned value."
        )
    return said


def _trade(psi: float) -> str:
    """Whether wide and sparse beats narrow and dense: weights go with w²·d and the error with w^ψ·d."""
    change = float(np.expm1((2 - psi) * np.log(2)))
    if abs(change) < 0.02:
        return (
            "At equal error, wide and narrow networks need about equally many weights once they are pruned."
        )
    word, smaller = ("more", "narrower") if change > 0 else ("fewer", "wider")
    return (
        f"As weights grow with the square of the width, twice the width then holds "
        f"{words.percent(abs(change), digits=0)} {word} weights at equal error: the {smaller} network is the smaller "
        "one as long as its unpruned error is well below the target."
    )


def invariant_section(fit: Fit, measured: Rows, curves: Sequence[Curve], own: charts.Hue) -> Section:
    """Error against density, then against m*, on which past their plateaus all curves fall together."""
    powers = {"depth": ("depth", "phi"), "width": ("width", "psi"), "num_examples": ("(n/N)", "nu")}
    factors = [f"{powers[a][0]}^{words.number(fit.parameters[powers[a][1]])}" for a in fit.axes]
    formula = " · ".join([*factors, "density"])
    along_density = Chart(
        name="by-density",
        spec=charts.invariant_chart(measured, curves, own, "density", fit.metric),
        caption="Against density every network has a curve of its own.",
    )
    if not fit.axes:
        text = [
            "One size alone was measured, so there is nothing yet to collapse; train another width or depth."
        ]
        return Section(
            name="invariant", title="One curve for a whole family", text=text, charts=[along_density]
        )
    collapsed = Chart(
        name="by-invariant",
        spec=charts.invariant_chart(measured, curves, own, "m", fit.metric),
        caption=f"Against m* = {formula} they fall together once they leave their low plateaus.",
    )
    text = [
        "Depth, width and density can be traded against each other without changing the error. What stays the same "
        f"is the invariant m* = {formula}."
    ]
    return Section(
        name="invariant",
        title="One curve for a whole family",
        text=text,
        charts=[along_density, collapsed],
    )


def unknown_section(fit: Fit) -> Section:
    """What the data cannot tell."""
    notes = [note.text for note in fit.notes if note.kind in UNKNOWN]
    text = [] if notes else ["Nothing stands out: every parameter is determined and the noise is known."]
    if fit.at_chance:
        notes.append(
            f"{words.plural(fit.at_chance, 'row')} no better than chance are in the table and left out of the fit."
        )
    if fit.dense is None:
        notes.append(
            "Too few configurations for a law of the unpruned error: only measured sizes can be chosen."
        )
    notes.append(
        "Unstructured zeros save storage and arithmetic only where the runtime makes use of them; sizes count "
        "parameters, not milliseconds."
    )
    return Section(name="unknown", title="What the data cannot tell", text=text, notes=notes)


WHERE_FROM = ("measured", "plan", "code", "device", "date", "seconds")
"""What the provenance of a shipped table says of its making."""


def _chance(table: Table) -> str:
    return "not known" if table.chance is None else words.error(table.chance)


def _options(fit: Fit) -> list[str]:
    """How the fit was made, in words."""
    named = {
        "replicates": "replicates",
        "residual": "residual",
        "huber": "Huber threshold",
        "high_error": "ε↑",
        "too_large": "networks too large for their data",
    }
    said = [f"{named.get(name, name)}: {value}" for name, value in fit.options.items() if value != "None"]
    return [text.replace("_", " ") for text in said]


def origin_section(table: Table, fit: Fit | None, command: str) -> Section:
    """Where each number came from."""
    rows = [
        ["Table", table.source],
        ["Rows", f"{len(table):,}"],
        ["Digest of the measurements (SHA-256)", table.digest],
        *[
            [name, value]
            for name, value in (
                ("Family", table.family),
                ("Dataset", table.dataset),
                ("Pruning method", table.method),
                ("Recipe", table.recipe),
            )
            if value
        ],
        *([["Chance error", _chance(table)]] if table.metric == "error" else []),
        ["Made by", f"prunecast {__version__}, {command}"],
    ]
    if fit is not None:
        rows.insert(-1, ["Fit", f"{words.LAWS[fit.law]}; " + "; ".join(_options(fit))])
    shipped = tables.provenance(table.source) if table.source in tables.names() else {}
    told = [
        [name.capitalize(), str(value)]
        for name, value in shipped.items()
        if name in (*WHERE_FROM, *("family", "dataset", "method", "recipe", "caution"))
    ]
    grids = [Grid(header=["", ""], rows=rows, left=2, verbatim=True)]
    if told:
        grids.append(Grid(header=["", ""], rows=told, left=2, caption="The shipped table", verbatim=True))
    return Section(
        name="origin",
        title="Where each number came from",
        text=[
            "Measured errors are the table's, averaged over replicates. Estimates, curves and intervals come from the "
            "fitted law; unpruned errors of sizes nobody trained from a law of the unpruned error; sizes from the "
            "family's layers where it is a built-in one. The page only looks numbers up."
        ],
        grids=grids,
        notes=sentences(table.findings, table.metric),
    )
