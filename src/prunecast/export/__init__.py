"""The chosen network itself: trained, pruned, written with its card, and loaded again."""

from prunecast.export.card import Card
from prunecast.export.card_text import (
    COMPARED,
    ZEROS,
    compared,
    dead,
    latency_verdict,
    no_onnx,
    sizes_header,
    title,
    value,
    verdict,
    zeros,
)
from prunecast.export.files import load_masks, load_network
from prunecast.export.making import finish, make, train
from prunecast.export.orders import Order, order
from prunecast.export.timing import (
    Latency,
    TimedLevel,
    TimedNetwork,
    Timing,
    latency_columns,
    time_made,
    time_network,
    time_table,
)

__all__ = [
    "COMPARED",
    "ZEROS",
    "Card",
    "Latency",
    "Order",
    "TimedLevel",
    "TimedNetwork",
    "Timing",
    "compared",
    "dead",
    "finish",
    "latency_columns",
    "latency_verdict",
    "load_masks",
    "load_network",
    "make",
    "no_onnx",
    "order",
    "sizes_header",
    "time_made",
    "time_network",
    "time_table",
    "title",
    "train",
    "value",
    "verdict",
    "zeros",
]
