"""A table that is no box: what was measured on each axis alone was not measured together."""

from functools import cache

from planted import planted

from prunecast import fit, read
from prunecast.laws import Fit
from prunecast.table import Table


def uneven_table() -> Table:
    """Depth 8 was trained on few examples only, depth 20 on many too."""
    frame = planted(
        configurations=16, depths=(8, 20), widths=(0.25, 0.5, 1, 2), num_examples=(50_000, 12_500), noise=0.01
    )
    known = frame[(frame["depth"] == 20) | (frame["num_examples"] == 12_500)]
    known = known.drop(columns=["weights", "nonzero"])
    return read(known.assign(family="cifar_resnet", dataset="cifar10"))


@cache
def uneven() -> Fit:
    return fit(uneven_table())
