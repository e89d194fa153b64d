"""Tables with a planted law: a family counted by its layers, and one measured unevenly."""

from functools import cache

from planted import planted

from prunecast import fit, read
from prunecast.laws import Configuration, Fit
from prunecast.table import Table


def planted_table() -> Table:
    """Eq. 2 over depth and width, with the layers of a built-in family instead of the table's own counts."""
    frame = planted(configurations=60, num_examples=(50_000, 12_500)).drop(columns=["weights", "nonzero"])
    return read(frame.assign(family="cifar_resnet", dataset="cifar10", recipe="cifar10"))


def uneven_table() -> Table:
    """Not all depths with all numbers of examples: depth 8 was trained on few examples only, depth 20 on many too."""
    frame = planted(
        configurations=16, depths=(8, 20), widths=(0.25, 0.5, 1, 2), num_examples=(50_000, 12_500), noise=0.01
    )
    known = frame[(frame["depth"] == 20) | (frame["num_examples"] == 12_500)]
    known = known.drop(columns=["weights", "nonzero"])
    return read(known.assign(family="cifar_resnet", dataset="cifar10"))


@cache
def uneven() -> Fit:
    return fit(uneven_table())


def misses(size: Configuration, density: float, target: float) -> bool:
    """Whether the rows measured at a density, or next to it on either side, all have more than the target error."""
    same = [error for at, error, _ in size.curve if abs(at / density - 1) < 1e-6]
    lower = [(at, error) for at, error, _ in size.curve if at < density * (1 - 1e-6)]
    higher = [(at, error) for at, error, _ in size.curve if at > density * (1 + 1e-6)]
    near = same or [pair[1] for pair in ([max(lower)] if lower else []) + ([min(higher)] if higher else [])]
    return all(error > target * (1 + 1e-6) for error in near)
