"""Which network to train and how far to prune it."""

from prunecast.choice.answer import Choice, Matching, Network, Question
from prunecast.choice.choosing import choose, choose_each
from prunecast.choice.frontier import Frontier, frontier
from prunecast.choice.optimum import Optimum, optimum

__all__ = [
    "Choice",
    "Frontier",
    "Matching",
    "Network",
    "Optimum",
    "Question",
    "choose",
    "choose_each",
    "frontier",
    "optimum",
]
