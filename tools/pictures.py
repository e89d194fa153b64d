"""Draw the pictures of the README and the docs from the shipped table: `python tools/pictures.py`."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from published import compare_curve, published_curve

import prunecast
from prunecast.report import page
from prunecast.report.figures import figures
from prunecast.report.figures.style import DPI, FAINT, STYLE, log_axis, panels
from prunecast.report.palette import colours

TABLE = "cifar10-resnet"
HERE = Path(__file__).parents[1] / "docs" / "pictures"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


def law_picture(table: prunecast.Table, path: Path) -> None:
    """Measured errors of five widths with the fitted law, and the same rows collapsing on the invariant m*."""
    with tempfile.TemporaryDirectory() as folder:
        (drawn,) = figures(table, Path(folder), law="eq2", only=("error-against-invariant",))
        shutil.copy(drawn.paths[1], path)


def published_picture(measured: dict[str, prunecast.Table], path: Path) -> None:
    """The paper's first curve, as well as it can be read, and the same network's in each table."""
    own = {name: [one for one in compare_curve(table) if one.here] for name, table in measured.items()}
    published = [
        (float(one["density"]), float(one["error_low"]), float(one["error_high"]))
        for one in published_curve()
    ]
    density, low, high = np.array(published).T
    first = float(published_curve()[0]["error"])
    with rc_context(STYLE):
        figure, (errors, rises) = panels(2)
        errors.fill_between(density, low, high, color=FAINT, linewidth=0, label="the paper")
        rises.fill_between(density, low / first, high / first, color=FAINT, linewidth=0)
        for (name, points), colour in zip(own.items(), colours(len(own)), strict=True):
            kept = [one.density for one in points]
            here = np.array([(one.here, one.here_rise) for one in points], dtype=float)
            errors.plot(kept, here[:, 0], "o-", color=colour, linewidth=0.8, label=name)
            rises.plot(kept, here[:, 1], "o-", color=colour, linewidth=0.8)
        for panel, words in ((errors, "test error"), (rises, "error / unpruned error")):
            log_axis(panel.xaxis, density)
            panel.set(xlabel="density", ylabel=words)
        log_axis(errors.yaxis, [*low, *high])
        log_axis(rises.yaxis, [0.85, *(high / first)])
        errors.set_title("ResNet-20 of width 1 on CIFAR-10")
        rises.set_title("the same, relative to the unpruned network")
        errors.legend()
        figure.savefig(path, dpi=DPI, metadata={"Software": None})


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
