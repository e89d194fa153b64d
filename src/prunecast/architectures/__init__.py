"""Torch-free layer lists of the built-in families: shapes, parameter counts, multiply-adds."""

from prunecast.architectures.architecture import Architecture
from prunecast.architectures.catalogue import FAMILIES, Family, architecture
from prunecast.architectures.layer import IMAGE, Kind, Layer, Shape

__all__ = ["FAMILIES", "IMAGE", "Architecture", "Family", "Kind", "Layer", "Shape", "architecture"]
