"""The chosen network itself: trained, pruned, written with its card, and loaded again."""

from prunecast.networks.loading import load_masks, load_network
from prunecast.networks.making import Order, make, order

__all__ = ["Order", "load_masks", "load_network", "make", "order"]
