"""How tests are dealt out to processes: files as a whole, as what a file sets up is set up once; the long first."""

import arithmetic  # noqa: F401  # before anything imports numpy
import pytest

TOGETHER = {
    "test_page_in_browser.py": "test_page.py",
    "test_fused_layers.py": "test_fused_step.py",
    "test_fused_runner.py": "test_fused_step.py",
    "test_artefact.py": "test_make.py",
    "test_make_docs.py": "test_make.py",
}
"""Files that share what is expensive: the pages of several tables, the kernels compiled for the CPU, a made network."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Begin with files that have slow tests, so that short ones fill up the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
    for item in items:
        item.add_marker(pytest.mark.xdist_group(TOGETHER.get(item.path.name, item.path.name)))
