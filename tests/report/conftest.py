import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from report_tables import TABLES

from prunecast.report import page

os.environ.setdefault("OMP_NUM_THREADS", "1")
CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """Pages by the name of their table, each made once, by one of the processes that share the tests."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "pages"
    folder.mkdir(exist_ok=True)

    def path(name: str) -> Path:
        made = folder / f"{name.replace(' ', '-')}.html"
        with made.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not made.exists():
                made.write_text(page(TABLES[name]()).html, encoding="utf-8")
        return made

    return path


@pytest.fixture(scope="session")
def chromium() -> Iterator[object]:
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine: the page was not tried in a browser")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


class Visit:
    """An opened page, with every request and complaint it made."""

    def __init__(self, context):
        self.page = context.new_page()
        self.requests, self.complaints = [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def open(self, path: Path):
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("body[data-ready=yes]")
        return self.page


@pytest.fixture
def visit(chromium):
    contexts = []

    def open_page(path: Path, **options) -> Visit:
        context = chromium.new_context(**options)
        contexts.append(context)
        one = Visit(context)
        one.open(path)
        return one

    yield open_page
    for context in contexts:
        context.close()
