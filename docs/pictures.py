"""Draw the pictures of the README and the docs from the shipped table: `python docs/pictures.py`."""

import shutil
import tempfile
from pathlib import Path

import prunecast
from prunecast.report import page
from prunecast.report.figures import figures

TABLE = "cifar10-resnet"
HERE = Path(__file__).parent / "pictures"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


def law_picture(table: prunecast.Table, path: Path) -> None:
    """Measured errors of five widths with the fitted law, and the same rows collapsing on the invariant m*."""
    with tempfile.TemporaryDirectory() as folder:
        (drawn,) = figures(table, Path(folder), only=("error-against-invariant",))
        shutil.copy(drawn.paths[1], path)


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
    found = shutil.which("chromium")
    if found is None:
        print("No chromium here: the picture of the page stays as it is.")
    else:
        page_picture(prunecast.read(TABLE), HERE / "page.png", found)
