"""The chosen network itself: trained, pruned, written with its card, and loaded again."""

from prunecast.export.card import Card
from prunecast.export.card_text import ZEROS, dead, no_onnx, sizes_header, title, verdict, zeros
from prunecast.export.files import load_masks, load_network
from prunecast.export.making import finish, make, silently, train
from prunecast.export.orders import Order, order

__all__ = [
    "ZEROS",
    "Card",
    "Order",
    "dead",
    "finish",
    "load_masks",
    "load_network",
    "make",
    "no_onnx",
    "order",
    "silently",
    "sizes_header",
    "title",
    "train",
    "verdict",
    "zeros",
]
