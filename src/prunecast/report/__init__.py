"""Results as sections, printed as text or written as a page, and as figures."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prunecast.report import terminal
    from prunecast.report.choices import choice, frontier
    from prunecast.report.document import Chart, Fact, Grid, Section
    from prunecast.report.figures import FIGURES, Drawn, draw_figures
    from prunecast.report.fits import fit_summary, predictions, scores, single_fits
    from prunecast.report.html import Page, page
    from prunecast.report.latex import latex_figure, latex_tables
    from prunecast.report.paper_figures import draw_paper_figures
    from prunecast.report.results import describe, result_html, result_latex, result_plot, result_text
    from prunecast.report.studies import claims, study_section, titled

__all__ = [
    "FIGURES",
    "Chart",
    "Drawn",
    "Fact",
    "Grid",
    "Page",
    "Section",
    "choice",
    "claims",
    "describe",
    "draw_figures",
    "draw_paper_figures",
    "fit_summary",
    "frontier",
    "latex_figure",
    "latex_tables",
    "page",
    "predictions",
    "result_html",
    "result_latex",
    "result_plot",
    "result_text",
    "scores",
    "single_fits",
    "study_section",
    "terminal",
    "titled",
]

_MODULES = {
    **dict.fromkeys(("Chart", "Fact", "Grid", "Section"), "document"),
    **dict.fromkeys(("latex_figure", "latex_tables"), "latex"),
    **dict.fromkeys(("describe", "result_html", "result_latex", "result_plot", "result_text"), "results"),
    **dict.fromkeys(("FIGURES", "Drawn", "draw_figures"), "figures"),
    "draw_paper_figures": "paper_figures",
    **dict.fromkeys(("Page", "page"), "html"),
    **dict.fromkeys(("choice", "frontier"), "choices"),
    **dict.fromkeys(("fit_summary", "predictions", "scores", "single_fits"), "fits"),
    **dict.fromkeys(("claims", "study_section", "titled"), "studies"),
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that plans are printed without pandas and scipy."""
    if name not in __all__:
        raise AttributeError(f"module 'prunecast.report' has no attribute {name!r}")
    module = import_module(f"prunecast.report.{_MODULES.get(name, name)}")
    return getattr(module, name) if name in _MODULES else module
