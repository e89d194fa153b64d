"""What people see: the page and the figures of a table."""

from prunecast.report.page import page

__all__ = ["page"]
