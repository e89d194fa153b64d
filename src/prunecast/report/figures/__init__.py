"""The figures of the paper that a table allows, each as PDF and PNG."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from prunecast.errors import PrunecastError
from prunecast.report.figures import curves, evidence, planes, roles
from prunecast.report.figures.sources import Source
from prunecast.report.figures.style import STYLE, save, spoken
from prunecast.report.spoken import speaker
from prunecast.table import Table

FIGURES: dict[str, Callable[[Source], Figure]] = {
    "error-against-density": curves.error_against_density,
    "estimated-against-actual": curves.estimated_against_actual,
    "regions-and-roles": roles.regions_and_roles,
    "contours": planes.contours,
    "error-against-invariant": curves.error_against_invariant,
    "replicates-spread": evidence.replicates_spread,
    "dense-error": planes.dense_error,
    "sensitivity": evidence.sensitivity_bands,
    "extrapolation": evidence.extrapolation,
    "forms": evidence.forms_compared,
    "dips": evidence.dips,
    "frontier": planes.the_frontier,
}


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """One figure: its files, or why the table does not allow it."""

    name: str
    paths: tuple[Path, ...]
    missing: str | None


def figures(table: Table, folder: Path, *, law: str = "auto", only: tuple[str, ...] = ()) -> list[Drawn]:
    """Draw every figure, or only some, into a folder, by the law that answers use unless another is named."""
    unknown = [name for name in only if name not in FIGURES]
    if unknown:
        raise PrunecastError(f"no figure is called {unknown[0]!r}; there are {', '.join(FIGURES)}")
    source = Source(table=table, law=law)
    _ = source.fit
    folder.mkdir(parents=True, exist_ok=True)
    return [_drawn(name, source, folder) for name in FIGURES if not only or name in only]


def _drawn(name: str, source: Source, folder: Path) -> Drawn:
    with mpl.rc_context(STYLE):
        try:
            figure = FIGURES[name](source)
        except PrunecastError as problem:
            return Drawn(name=name, paths=(), missing=str(problem))
        spoken(figure, speaker(source.table.metric))
        return Drawn(name=name, paths=tuple(save(figure, folder, name)), missing=None)
