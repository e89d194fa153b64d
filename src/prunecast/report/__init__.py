"""What people see: the page and the figures of a table."""

from prunecast.report.figures import FIGURES, Drawn, draw_figures
from prunecast.report.page import Page, page

__all__ = ["FIGURES", "Drawn", "Page", "draw_figures", "page"]
