"""The chosen network itself: trained, pruned, written with its card, and loaded again."""

from prunecast.export.card import Card
from prunecast.export.card_text import card_section, made_section, title, verdict
from prunecast.export.files import load_masks, load_network
from prunecast.export.making import finish, make, train
from prunecast.export.orders import Order, order
from prunecast.export.timing import (
    Latencies,
    Latency,
    Level,
    TimedLevel,
    TimedNetwork,
    Timing,
    fastest,
    latencies_of,
    latency_columns,
    time_made,
    time_network,
    time_table,
    trained_chains,
)
from prunecast.export.untrained import (
    Place,
    time_untrained,
    untrained_before,
    untrained_networks,
    write_untrained,
)

__all__ = [
    "Card",
    "Latencies",
    "Latency",
    "Level",
    "Order",
    "Place",
    "TimedLevel",
    "TimedNetwork",
    "Timing",
    "card_section",
    "fastest",
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
    "time_untrained",
    "title",
    "train",
    "trained_chains",
    "untrained_before",
    "untrained_networks",
    "verdict",
    "write_untrained",
]
