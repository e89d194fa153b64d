"""What people see: the page and the figures of a table."""

from prunecast.report.page import Page, page

__all__ = ["Page", "page"]
