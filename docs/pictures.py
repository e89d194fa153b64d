"""Draw the pictures of the README and the docs from the shipped table: `python docs/pictures.py`."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FuncFormatter, NullFormatter

import prunecast

HERE = Path(__file__).parent / "pictures"
COLOURS = ["#0072B2", "#009E73", "#E69F00", "#D55E00", "#CC79A7"]
"""The colour-blind safe palette of Okabe and Ito."""


def law_picture(path: Path) -> None:
    """Measured errors of five widths with the fitted law, and the same rows collapsing on the invariant m*."""
    table = prunecast.read("cifar10-resnet20-24ep", where={"num_examples": 50000})
    fit = prunecast.fit(table)
    psi = fit.parameters["psi"]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True, layout="constrained")
    densities = np.geomspace(0.003, 1, 200)
    for colour, one in zip(COLOURS, fit.configurations, strict=True):
        rows = table.frame[table.frame["width"] == one.width]
        label = f"width {one.width:g}" if one.width == 1 else f"width 1/{1 / one.width:g}"
        left.plot(densities, fit.predict(densities, width=one.width).error, color=colour)
        left.plot(rows["density"], rows["error"], "o", color=colour, ms=4)
        right.plot(one.width**psi * rows["density"], rows["error"], "o", color=colour, ms=4, label=label)
    left.set(title="measured (dots) and the fitted law (lines)", xlabel="density", ylabel="test error")
    right.set(title="the same networks against the invariant", xlabel=f"m* = width^{psi:.2f} · density")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", yticks=[0.15, 0.2, 0.3, 0.4, 0.6, 0.8])
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_formatter(NullFormatter())
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    right.legend(frameon=False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    law_picture(HERE / "law.png")
