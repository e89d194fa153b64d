"""Every figure of the paper in its own layout, drawn from a table: `prunecast figures TABLE --paper`.

A figure is a list of panels. A panel that the table cannot fill is left out, with a sentence that says what is missing.
Figures 12 to 17 have one layout for six pairs of network and dataset, and figure 10 is figure 9 of ImageNet; a table is
drawn under the number of its own pair.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from prunecast.errors import PrunecastError
from prunecast.laws import DEFAULT_LAW, fit
from prunecast.report import paper_panels as panels
from prunecast.report.curves import AXES
from prunecast.report.figures import Drawn, write_figure
from prunecast.report.paper_source import Paper
from prunecast.report.vega import Spec, figure, share_y
from prunecast.table import Table
from prunecast.wording import numbers

PAIRS = {
    ("cifar_resnet", "svhn"): "figure-12",
    ("vgg", "cifar10"): "figure-13",
    ("vgg", "svhn"): "figure-14",
    ("densenet", "cifar10"): "figure-15",
    ("densenet", "svhn"): "figure-16",
    ("tinyimagenet_resnet", "tinyimagenet"): "figure-17",
}
"""The figure that the paper has of each further pair of family and dataset."""
Builder = Callable[[Paper], Spec]


@dataclass(frozen=True, kw_only=True)
class PaperFigure:
    """One figure of the paper: what it shows, and its panels from left to right by name."""

    shows: str
    panels: Mapping[str, Builder]
    shared: tuple[str, ...] = ()
    """panels with one vertical axis"""
    rows: int = 1


def draw_paper_figures(
    table: Table, folder: Path, *, only: tuple[str, ...] = (), latex: bool = False
) -> list[Drawn]:
    """Draw every figure of the paper, or only some, from a table with the paper's law, into a folder."""
    known = paper_figures(table)
    unknown = [name for name in only if name not in known]
    if unknown:
        raise PrunecastError(
            f"the paper has no figure {unknown[0]!r} of this table; there are {', '.join(known)}"
        )
    paper = Paper(table=table, fit=fit(table, law=DEFAULT_LAW))
    folder.mkdir(parents=True, exist_ok=True)
    chosen = {name: own for name, own in known.items() if not only or name in only}
    return [_drawn(name, own, paper, folder, latex=latex) for name, own in chosen.items()]


def _drawn(name: str, own: PaperFigure, paper: Paper, folder: Path, *, latex: bool) -> Drawn:
    spec, left_out = composed(own, paper)
    if spec is None:
        return Drawn(name=name, paths=(), missing="; ".join(dict.fromkeys(left_out.values())))
    caption = f"{own.shows} Table: {paper.table.source}." if latex else ""
    return Drawn(
        name=name,
        paths=write_figure(spec, name, folder, caption),
        missing=None,
        left_out=tuple(f"{panel}: {why}" for panel, why in left_out.items()),
    )


def composed(own: PaperFigure, paper: Paper) -> tuple[Spec | None, dict[str, str]]:
    """A figure of the panels that the table allows, None where it allows none; and why the others are left out."""
    made, left_out = dict[str, Spec](), dict[str, str]()
    for name, builder in own.panels.items():
        try:
            made[name] = builder(paper)
        except PrunecastError as problem:
            left_out[name] = str(problem)
    if not made:
        return None, left_out
    if shared := [made[name] for name in own.shared if name in made]:
        share_y(shared)
    return {**figure(list(made.values())), "columns": -(-len(made) // own.rows)}, left_out


def paper_figures(table: Table) -> dict[str, PaperFigure]:
    """The figures of the paper that have a layout for a table, by their numbers in the paper."""
    found = dict(FIGURES)
    if table.dataset == "imagenet":
        found = {("figure-10" if name == "figure-9" else name): own for name, own in found.items()}
    pair = PAIRS.get((table.family, table.dataset), "figures-12-17")
    found[pair] = PAIR_FIGURE
    return {name: found[name] for name in sorted(found, key=_number)}


def _number(name: str) -> int:
    return int(name.split("-")[1])


def _along(builder: Callable[..., Spec], names: Sequence[str] = AXES, after: str = "") -> dict[str, Builder]:
    """A panel for each axis, by the axis's name."""
    return {f"by {numbers.axis(name)}{after}": partial(builder, along=name) for name in names}


PARTIAL = ("width", "num_examples", "depth")
PAIR_FIGURE = PaperFigure(
    shows="Fit by width, estimated against actual error, and the spread of replicates.",
    panels={
        "by width": panels.pair_curves,
        "estimated against actual": panels.joint_correlation,
        "replicates": panels.replicates,
    },
)
FIGURES: dict[str, PaperFigure] = {
    "figure-1": PaperFigure(
        shows="Error against density by width; the regions of one curve; Eq. 1 and its parameters.",
        panels={
            **_along(panels.pruning_curves, ("width",)),
            "regions": panels.regions,
            "parameters": panels.roles,
        },
    ),
    "figure-2": PaperFigure(
        shows="Eq. 1 fitted to each configuration alone: by width, the same networks, all configurations.",
        panels={
            "by width": panels.single_curves,
            "estimated against actual": panels.single_correlation,
            "all configurations": panels.single_all,
        },
    ),
    "figure-3": PaperFigure(
        shows="Contours of constant error in the planes of density with depth and width, and the invariant.",
        panels={**_along(panels.contours, ("depth", "width")), "invariant": panels.invariant_contours},
    ),
    "figure-4": PaperFigure(
        shows="Error against the invariant by width, depth and dataset size, with the parameters of each part.",
        panels=_along(panels.against_invariant),
        shared=tuple(_along(panels.against_invariant)),
    ),
    "figure-5": PaperFigure(
        shows="Estimated against actual error of all configurations jointly, and the spread of replicates.",
        panels={"estimated against actual": panels.joint_correlation, "replicates": panels.replicates},
    ),
    "figure-6": PaperFigure(
        shows="μ and σ of the fit against the number of networks and of configurations that it was given.",
        panels={name: partial(panels.sensitivity, of=of) for of, name in panels.SAMPLED.items()},
    ),
    "figure-7": PaperFigure(
        shows="Eq. 2 and the form adapted from Rosenfeld 2020 as width varies.",
        panels={"by width": panels.forms},
    ),
    "figure-8": PaperFigure(
        shows="Estimated and actual error against size as width varies; dotted: the smallest network.",
        panels={"estimated": panels.predicted_frontier, "actual": panels.measured_frontier},
        shared=("estimated", "actual"),
    ),
    "figure-9": PaperFigure(
        shows="Error against density by width, depth and dataset size.",
        panels=_along(panels.pruning_curves),
        shared=tuple(_along(panels.pruning_curves)),
    ),
    "figure-11": PaperFigure(
        shows="Partial fits by width, dataset size and depth: actual (lines) and estimated error (dots).",
        panels={
            **_along(panels.partial_fit, PARTIAL),
            **_along(panels.partial_correlation, PARTIAL, ", estimated against actual"),
        },
        shared=tuple(_along(panels.partial_fit, PARTIAL)),
        rows=2,
    ),
    "figure-18": PaperFigure(
        shows="Extrapolation from four small networks to all others.",
        panels={
            "by size": panels.extrapolation_curves,
            "estimated against actual": panels.extrapolation_correlation,
        },
    ),
    "figure-19": PaperFigure(
        shows="Forms compared as width varies; unpruned networks with the law of Rosenfeld 2020.",
        panels={"by width": panels.forms, "unpruned": panels.unpruned},
    ),
}
