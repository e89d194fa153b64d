"""The chosen network itself: trained, pruned, written with its card, and loaded again."""

from prunecast.export.card import Card
from prunecast.export.card_text import card_section, made_section, title, verdict
from prunecast.export.files import load_masks, load_network
from prunecast.export.making import finish, make, train
from prunecast.export.orders import Order, order
from prunecast.export.timing import (
    Latency,
    Level,
    TimedLevel,
    TimedNetwork,
    Timing,
    latencies_of,
    latency_columns,
    time_made,
    time_network,
    time_table,
)

__all__ = [
    "Card",
    "Latency",
    "Level",
    "Order",
    "TimedLevel",
    "TimedNetwork",
    "Timing",
    "card_section",
    "finish",
    "latencies_of",
    "latency_columns",
    "load_masks",
    "load_network",
    "made_section",
    "make",
    "order",
    "time_made",
    "time_network",
    "time_table",
    "title",
    "train",
    "verdict",
]
