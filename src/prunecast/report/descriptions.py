"""A result as the command line prints it, for people who work in Python."""

from prunecast.choice import Choice
from prunecast.laws import Fit
from prunecast.report import terminal
from prunecast.report.choices import choice
from prunecast.report.fits import fit_summary


def describe(result: Fit | Choice) -> str:
    """A fitted law or an answer in words and tables, with its findings as sentences."""
    return terminal.text(fit_summary(result) if isinstance(result, Fit) else choice(result))
