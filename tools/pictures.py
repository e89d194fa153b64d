"""Draw the pictures of the README and the docs from the shipped table: `python tools/pictures.py`."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
from published import compare_curve, published_curve

import prunecast
from prunecast.laws import DEFAULT_LAW
from prunecast.report import draw_figures, page
from prunecast.report.vega import FIGURE, WIDE, colour, dots, figure, layer, log_axis, panel, rendered, rows

TABLE = "cifar10-resnet"
HERE = Path(__file__).parents[1] / "docs" / "pictures"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


def law_picture(table: prunecast.Table, path: Path) -> None:
    """Measured errors of five widths with the fitted law, and the same rows collapsing on the invariant m*."""
    with tempfile.TemporaryDirectory() as folder:
        (drawn,) = draw_figures(table, Path(folder), law=DEFAULT_LAW, only=("error-against-invariant",))
        shutil.copy(next(one for one in drawn.paths if one.suffix == ".png"), path)


def published_picture(measured: dict[str, prunecast.Table], path: Path) -> None:
    """The paper's first curve, as well as it can be read, and the same network's in each table."""
    own = {name: [one for one in compare_curve(table) if one.here] for name, table in measured.items()}
    published = [
        (float(one["density"]), float(one["error_low"]), float(one["error_high"]))
        for one in published_curve()
    ]
    density, low, high = np.array(published).T
    first = float(published_curve()[0]["error"])
    hues = colour("hue", "", ["the paper", *own], FIGURE)
    hues["scale"]["range"] = [FIGURE.faint, *FIGURE.colours(len(own))]
    x = log_axis("density", "density", density)
    panels = []
    for title, words, unit, lowest, field in (
        ("ResNet-20 of width 1 on CIFAR-10", "test error", 1.0, min(low), "here"),
        ("The same, relative to the unpruned network", "error / unpruned error", first, 0.85, "here_rise"),
    ):
        y = log_axis("error", words, [lowest, *(high / unit)])
        paper = rows(density=density, error=low / unit, high=high / unit, hue="the paper")
        here = [
            row
            for name, points in own.items()
            for row in rows(
                density=[one.density for one in points],
                error=[float(getattr(one, field)) for one in points],
                hue=name,
            )
        ]
        encoding = {"x": x, "y": y, "color": hues}
        layers = [
            layer(paper, "area", {**encoding, "y2": {"field": "high"}}, opacity=1),
            layer(here, "line", encoding, strokeWidth=1.2),
            dots(here, encoding),
        ]
        panels.append(panel(title, layers, size=WIDE))
    path.write_bytes(rendered(figure(panels, one_legend=True))["png"])


def page_picture(table: prunecast.Table, path: Path, chromium: str) -> None:
    """The top of the page as a browser shows it."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "page.html"
        file.write_text(page(table, target_error=0.2, studies=False).html, encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        tab = browser.new_page(viewport={"width": 1180, "height": 1010}, color_scheme="light")
        tab.goto(file.as_uri())
        tab.wait_for_selector("body[data-ready=yes]")
        tab.screenshot(path=path)
        browser.close()


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    law_picture(prunecast.read(TABLE, where={"num_examples": 50000}), HERE / "law.png")
    shown = {"here, 160 epochs": TABLE, "here, 24 epochs": "cifar10-resnet20-24ep"}
    published_picture({words: prunecast.read(name) for words, name in shown.items()}, HERE / "published.png")
    found = shutil.which("chromium")
    if found is None:
        print("No chromium here: the picture of the page stays as it is.")
    else:
        page_picture(prunecast.read(TABLE), HERE / "page.png", found)
