"""What the figures of a table are drawn from, worked out once."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from prunecast.laws import Fit, fit
from prunecast.laws.result import Configuration
from prunecast.report import words
from prunecast.report.charts import AXES, Hue, hue_of
from prunecast.report.curves import Curve, Rows, measured_curves, measured_rows
from prunecast.table import Table


@dataclass(frozen=True, kw_only=True)
class Source:
    """A table and its law, with measured rows and fitted curves."""

    table: Table
    law: str

    @cached_property
    def fit(self) -> Fit:
        """The fitted law."""
        return fit(self.table, law=self.law)

    @cached_property
    def eq2(self) -> Fit:
        """Eq. 2, or Eq. 1 of a single network, whichever law is drawn."""
        return fit(self.table, law="eq2") if self.fit.law == "dip" else self.fit

    @property
    def name(self) -> str:
        """The law in words."""
        return words.SHORT_LAWS[self.fit.law]

    @cached_property
    def rows(self) -> Rows:
        """Measured rows beside their estimates."""
        return measured_rows(self.table, self.fit)

    @cached_property
    def curves(self) -> list[Curve]:
        """The fitted curve of every configuration."""
        return measured_curves(self.fit)

    @cached_property
    def hue(self) -> Hue:
        """The axes that colours and shapes tell apart."""
        return hue_of(self.fit)

    def slice(self, axis: str) -> dict[str, float] | None:
        """The other two axes where this axis has most sizes, then most levels; None where it never varies."""
        others = [name for name in AXES if name != axis]
        groups: dict[tuple[float, ...], list[Configuration]] = {}
        for one in self.fit.configurations:
            groups.setdefault(tuple(getattr(one, name) for name in others), []).append(one)
        sizes = {key: len({getattr(one, axis) for one in own}) for key, own in groups.items()}
        levels = {key: sum(len(one.curve) for one in own) for key, own in groups.items()}
        best = max(groups, key=lambda key: (sizes[key], levels[key], key[-1], -abs(float(np.log(key[0])))))
        return dict(zip(others, best, strict=True)) if sizes[best] > 1 else None

    def held(self, axis: str) -> str:
        """The sizes of a slice in words; a 1 only where that axis has other sizes."""
        fixed = self.slice(axis) or {}
        several = {name for name in fixed if len({getattr(one, name) for one in self.fit.configurations}) > 1}
        said = [
            f"{words.axis(name)} {words.size(value)}"
            for name, value in fixed.items()
            if value != 1 or name in several
        ]
        return f" ({', '.join(said)})" if said else ""

    def along(self, axis: str) -> Iterator[tuple[float, Curve, NDArray[np.bool_]]]:
        """Each size of an axis inside its slice, with its curve and which rows are its own."""
        fixed = self.slice(axis)
        if fixed is None:
            return
        inside = [c for c in self.curves if all(getattr(c, name) == value for name, value in fixed.items())]
        for curve in sorted(inside, key=lambda c: float(getattr(c, axis))):
            yield float(getattr(curve, axis)), curve, self.own(curve)

    def own(self, curve: Curve) -> NDArray[np.bool_]:
        """Which rows belong to a curve's configuration."""
        rows = self.rows
        return np.asarray(
            np.isclose(rows.depth, curve.depth)
            & np.isclose(rows.width, curve.width)
            & np.isclose(rows.num_examples, curve.num_examples)
        )

    def varying(self) -> list[str]:
        """The axes along which more than one size was measured, all else equal."""
        return [axis for axis in AXES if self.slice(axis) is not None]
