"""Results as text for people; numbers come in, strings go out."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from io import StringIO
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from prunecast.choice.spoken import Speak, speaker
from prunecast.laws.words import MEANING
from prunecast.text import plural

if TYPE_CHECKING:
    import pandas as pd

    from prunecast.laws import Deviation, Fit, Score, SingleFit

WIDTH = 110


def render(parts: Iterable[object], quantity: str = "error") -> str:
    """Lines of a fixed width, without colour, so that text is the same everywhere.

    The word error becomes that of another quantity where the numbers are losses or validation errors.
    """
    stream, speak = StringIO(), speaker(quantity)
    console = Console(file=stream, width=WIDTH, color_system=None, highlight=False, emoji=False, markup=False)
    for part in parts:
        console.print(_spoken(part, speak))
    return "\n".join(line.rstrip() for line in stream.getvalue().rstrip("\n").split("\n"))


def _spoken(part: object, speak: Speak) -> object:
    """A part of a page with its words turned."""
    if isinstance(part, str):
        return speak(part)
    columns = part.columns if isinstance(part, Table) else ()
    cells = [part, *(cell for column in columns for cell in (column.header, *column.cells))]
    for text in (cell for cell in cells if isinstance(cell, Text)):
        text.plain = speak(text.plain)
    return part


def grid(header: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> Table:
    """A table; the first `left` columns are words, the others numbers."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for index, name in enumerate(header):
        table.add_column(Text(name), justify="left" if index < left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def bullets(texts: Iterable[str]) -> list[Table]:
    """Sentences as a list; nothing where there are none."""
    listed = Table.grid(padding=(0, 1))
    for text in texts:
        listed.add_row(Text("-"), Text(text))
    return [listed] if listed.row_count else []


def percent(value: float, sign: bool = False) -> str:
    """One digit after the point, a dash where there is no number."""
    return "–" if not math.isfinite(value) else f"{value:{'+' if sign else ''}.1%}"


def number(value: float) -> str:
    """Three significant digits, a dash where there is no number."""
    return f"{value:.3g}" if math.isfinite(value) else "–"


def _deviation(own: "Deviation") -> list[str]:
    return [percent(own.mean, sign=True), percent(own.std), f"{own.rows:,}"]


def equation(result: "Fit") -> str:
    """The law and its invariant; the law `dip` takes a second line for its plateau."""
    law, axes = result.law, result.axes
    powers = {"depth": "depth^φ", "width": "width^ψ", "num_examples": "(n/N)^ν"}
    invariant = " · ".join([*(powers[axis] for axis in axes), "density"])
    low = "unpruned" if law != "dip" else "low"
    words = f"error = {low} · [(m*² + p′²(ε↑/{low})^(2/γ)) / (m*² + p′²)]^(γ/2),  m* = {invariant}"
    if law != "dip":
        return words
    share = "A/(1 + n/(ρM))" if "dip_ratio" in result.parameters else "A"
    return f"{words}\nlow = unpruned · (1 − {share} · (1 − density²)),  n examples, M weights"


def fit(result: "Fit", table_notes: Sequence[str] = ()) -> str:
    """A fitted law on one screen."""
    origin = result.origin
    words = [word for word in (origin.family, origin.dataset, origin.method, origin.recipe) if word]
    about = f" ({', '.join(words)})" if words else ""
    counts = f"{plural(result.rows, 'row')} of {plural(len(result.configurations), 'configuration')}"
    name = {"eq1": "Eq. 1", "eq2": "Eq. 2", "dip": "The dip law"}[result.law]
    return render(
        [
            Text(f"{name} fitted to {origin.table}{about}: {counts}"),
            Text(equation(result)),
            "",
            _parameters(result),
            "",
            Text(f"deviation (estimate − measured)/measured; {_noise(result)}"),
            grid(
                ["", "mean μ", "std σ", "rows"],
                [["all", *_deviation(result.deviation)]]
                + [[name, *_deviation(own)] for name, own in result.regions.items() if own.rows],
            ),
            *([""] if result.notes or table_notes else []),
            *bullets([*(note.text for note in result.notes), *table_notes]),
        ],
        result.metric,
    )


def _noise(result: "Fit") -> str:
    floor = result.noise_floor
    if floor is None:
        return "no replicates, so the noise floor is unknown"
    scatter, best = percent(floor.replicate), percent(floor.fit)
    if result.deviation.std < floor.fit:
        return f"replicates scatter by {scatter}; that alone would leave {best}, and the fit stays within it"
    return f"replicates scatter by {scatter}, so {best} is the best a fit to these rows can do"


def _parameters(result: "Fit") -> Table:
    def row(name: str) -> list[str]:
        symbol, meaning = MEANING[name]
        low, high = result.intervals[name]
        span = "held" if name in result.fixed else f"{number(low)} to {number(high)}"
        remark = ", not determined" if name in result.undetermined else ""
        return [symbol, meaning + remark, number(result.parameters[name]), span]

    return grid(
        ["", "parameter", "estimate", "95% interval"], [row(name) for name in result.parameters], left=2
    )


def singles(fits: Sequence["SingleFit"], quantity: str = "error") -> str:
    """Eq. 1 for each configuration."""
    rows = [
        [
            *(f"{value:g}" for value in (one.depth, one.width, one.num_examples)),
            *(number(value) for value in (one.unpruned_error, *one.parameters.values())),
            *_deviation(one.deviation),
            ", ".join(MEANING[name][0] for name in one.at_bound),
        ]
        for one in fits
    ]
    header = ["depth", "width", "examples", "unpruned", "ε↑", "γ", "p", "mean μ", "std σ", "rows", "at bound"]
    return render(["Eq. 1 fitted to each configuration alone", "", grid(header, rows, left=0)], quantity)


def singles_as_json(fits: Sequence["SingleFit"]) -> dict[str, Any]:
    """Eq. 1 for each configuration, for programs."""
    return {"law": "eq1", "configurations": [asdict(one) for one in fits]}


def predictions(frame: "pd.DataFrame", quantity: str = "error", notes: Iterable[str] = ()) -> str:
    """Predicted errors, one row each; the number of examples where it tells rows apart."""
    several = frame["num_examples"].nunique() > 1
    rows = [
        [
            f"{row.density:.4g}",
            f"{row.depth:g}",
            f"{row.width:g}",
            *([f"{row.num_examples:,.0f}"] if several else []),
            f"{row.unpruned_error:.4f} {row.unpruned_source}",
            f"{row.error:.4f}",
            f"{row.lower:.4f} to {row.upper:.4f}",
            str(row.region) + (", extrapolated" if row.extrapolated else ""),
        ]
        for row in frame.itertuples()
    ]
    sizes = ["depth", "width", *(["examples"] if several else [])]
    header = ["density", *sizes, "unpruned error", "error", "95% of new runs", "region"]
    said = bullets(notes)
    return render([grid(header, rows, left=0), *([""] if said else []), *said], quantity)


def scores(results: Sequence["Score"], quantity: str = "error") -> str:
    """The two tracks of a comparison."""
    parts: list[object] = []
    for given, title in ((True, "given the unpruned error"), (False, "not given the unpruned error")):
        rows = [
            [
                score.title,
                str(score.parameters),
                *(mean_and_std(own) for own in (score.in_sample, score.configurations_out, score.large_out)),
            ]
            for score in results
            if score.given_unpruned == given
        ]
        header = [title, "free", "in sample", "left out", "large left out"]
        parts += [grid(header, rows), ""]
    parts.append(
        Text(
            "deviation μ ± σ in sample, with configurations left out, and from the smaller half of networks to the "
            "larger; free: number of fitted parameters; ranked by √(μ² + σ²) with configurations left out"
        )
    )
    return render(parts, quantity)


def mean_and_std(own: "Deviation") -> str:
    """μ ± σ in percent."""
    return "too few" if not math.isfinite(own.mean) else f"{own.mean:+.1%} ± {own.std:.1%}"
