"""The measured points a law is fitted to, as plain arrays sorted by configuration."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]

OF_A_ROW = ("level", "density", "error", "replicates", "nonzero")
OF_A_CONFIGURATION = ("weights", "depth", "width", "num_examples", "unpruned", "unpruned_replicates")


@dataclass(frozen=True, kw_only=True)
class Points:
    """Errors of pruned networks; rows are sorted by configuration, so that a configuration is a slice.

    Many problems of one form are solved at once. They share these points, or each has its own (see `packed`).
    """

    configuration: Integers
    """index of each row's configuration"""
    level: Integers
    density: Floats
    error: Floats
    """mean over the surviving replicates, or one replicate's error"""
    replicates: Floats
    """how many replicates a row's error is the mean of"""
    nonzero: Floats
    """non-zero prunable weights, or in proportion to them where a table does not count them"""
    weights: Floats
    """prunable weights of the unpruned network, one a configuration, in the same unit"""
    depth: Floats
    width: Floats
    num_examples: Floats
    unpruned: Floats
    """ε_np, one a configuration"""
    unpruned_replicates: Floats
    reference_depth: float
    """inside the invariant depth is divided by this, which decorrelates p′ and φ"""
    reference_examples: float = 1.0
    """inside the invariant the number of examples is divided by this"""

    def __len__(self) -> int:
        return int(self.error.shape[-1])

    @property
    def configurations(self) -> int:
        """How many configurations there are."""
        return int(self.depth.shape[-1])

    @cached_property
    def starts(self) -> Integers:
        """Where each configuration's rows begin."""
        return np.searchsorted(self.configuration, np.arange(self.configurations))

    @cached_property
    def log_error(self) -> Floats:
        """log ε."""
        return np.log(self.error)

    @cached_property
    def log_unpruned(self) -> Floats:
        """log ε_np, one a configuration."""
        return np.log(self.unpruned)

    @cached_property
    def inverse_square_density(self) -> Floats:
        """d⁻²."""
        return self.density**-2.0

    @cached_property
    def log_depth(self) -> Floats:
        """Log of depth over the reference depth, one a configuration."""
        return np.log(self.depth / self.reference_depth)

    @cached_property
    def log_width(self) -> Floats:
        """Log w, one a configuration."""
        return np.log(self.width)

    @cached_property
    def log_axes(self) -> dict[str, tuple[Floats, Floats]]:
        """Log depth, width and number of examples over their references, one a configuration and one a row."""
        examples = np.log(self.num_examples / self.reference_examples)
        values = {"depth": self.log_depth, "width": self.log_width, "num_examples": examples}
        return {axis: (own, self.spread(own)) for axis, own in values.items()}

    def spread(self, values: Floats) -> Floats:
        """Values of the configurations, last axis, as values of the rows."""
        return values.take(self.configuration, axis=-1) if self.configuration.ndim == 1 else values

    def packed(self, at: Integers) -> "Points":
        """The rows at each of many sets of places as points of their own: arrays have shape (sets, rows).

        Every row is a configuration of its own then.
        """
        own = self.configuration[at]
        columns = {name: getattr(self, name)[at] for name in OF_A_ROW}
        columns |= {name: getattr(self, name)[own] for name in OF_A_CONFIGURATION}
        return replace(self, configuration=own, **columns)

    def of_sets(self, at: NDArray[Any] | slice) -> "Points":
        """The points of some of the sets; points that are not packed belong to all."""
        if self.configuration.ndim == 1:
            return self
        columns = {name: getattr(self, name)[at] for name in (*OF_A_ROW, *OF_A_CONFIGURATION)}
        return replace(self, configuration=self.configuration[at], **columns)

    def rows(self, keep: Mask) -> "Points":
        """The rows to keep; configurations left without a row go too."""
        used = np.unique(self.configuration[keep])
        renumbered = np.searchsorted(used, self.configuration[keep])
        columns = {name: getattr(self, name)[keep] for name in OF_A_ROW}
        columns |= {name: getattr(self, name)[used] for name in OF_A_CONFIGURATION}
        return replace(self, configuration=renumbered, **columns)

    def of(self, configurations: Integers) -> "Points":
        """All rows of some configurations."""
        return self.rows(np.isin(self.configuration, configurations))
