"""Tables to make pages and figures of."""

import numpy as np
import pandas as pd
import research_tables
from planted import planted

from prunecast.table import Table, read

MEASURED = str(research_tables.path("cifar10-resnet20-24ep"))
EVIL = "<script>window.hit = 1</script><img src=x onerror='window.hit = 1'>\"'`${window.hit = 1}`</script>"


def planted_table() -> Table:
    """Depth, width and dataset size vary, with two replicates, in a built-in family."""
    frame = planted(
        configurations=18,
        replicates=2,
        depths=(8, 14, 20),
        widths=(0.25, 0.5, 1.0),
        num_examples=(50_000, 12_500),
        noise=0.02,
    )
    frame = frame.drop(columns=["weights", "nonzero"])
    return read(frame.assign(family="cifar_resnet", dataset="cifar10"))


def costs_table() -> Table:
    """Whole channels of two dataset sizes: bytes, multiply-adds and milliseconds fall from level to level."""
    frame = planted(
        configurations=12, depths=(8, 14), widths=(0.5, 1, 2), num_examples=(50_000, 12_500), noise=0.01
    )
    products = frame["depth"] * frame["width"] ** 2 * frame["density"]
    costs = {
        "bytes": (4_000 + 4 * frame["nonzero"]).astype(int),
        "multiply_adds": (1e6 * products + 1e4).astype(int),
        "latency_ms": (0.1 + 0.02 * frame["depth"] + 0.3 * products**0.7).round(5),
    }
    return read(frame.assign(family="cifar_resnet", dataset="cifar10", method="imp-channels", **costs))


def evil_table() -> Table:
    """A table in which every word is an attack."""
    frame = planted(configurations=6, depths=(8, 14), widths=(0.5, 1, 2), num_examples=(50_000,), noise=0.01)
    return read(frame.assign(family=EVIL, dataset=EVIL, method=EVIL, recipe=EVIL), chance=0.9)


def loss_table() -> Table:
    """Losses of two dataset sizes, some above one."""
    frame = planted(configurations=8, depths=(20,), widths=(0.25, 0.5, 1, 2), num_examples=(50_000, 12_500))
    return read(frame.assign(loss=3 * frame["error"]).drop(columns="error"), metric="loss")


def validation_table() -> Table:
    """Every row has a validation error, a tenth above its test error."""
    frame = planted(configurations=6, depths=(20,), widths=(0.25, 0.5, 1), num_examples=(50_000, 12_500))
    return read(frame.assign(validation_error=(1.1 * frame["error"]).clip(upper=0.95)), chance=0.96)


def tiny_table() -> Table:
    return read(pd.DataFrame({"density": [1.0, 0.8, 0.5], "error": [0.1, 0.11, 0.15]}))


def one_curve() -> Table:
    density = [1.0, 0.8, 0.5, 0.3, 0.1, 0.05, 0.02, 0.01]
    return read(pd.DataFrame({"density": density, "error": [0.1, 0.11, 0.15, 0.2, 0.3, 0.5, 0.7, 0.8]}))


def many_widths() -> Table:
    """Twelve widths, whose names do not fit into one line below a chart."""
    widths = tuple(np.geomspace(0.1, 3, 12).round(3))
    return read(planted(configurations=12, depths=(20,), widths=widths, num_examples=(50_000,), noise=0.03))


TABLES = {
    "measured": lambda: read(MEASURED, where={"num_examples": 50_000}),
    "all sizes": lambda: read(MEASURED),
    "planted": planted_table,
    "costs": costs_table,
    "evil": evil_table,
    "tiny": tiny_table,
    "one": one_curve,
}
