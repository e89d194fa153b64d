"""How tests are dealt out to processes: files as a whole, as what a file sets up is set up once; the long first."""

import pytest

TOGETHER = {
    "test_page_in_browser.py": "test_page.py",
    "test_fused_layers.py": "test_fused_step.py",
    "test_fused_runner.py": "test_fused_step.py",
}
"""Files that share what is expensive: the pages of several tables, the kernels compiled for the CPU."""


WAITING = ("clusters", "killed", "bad_days", "teams")
"""Parts of the paths of files whose tests mostly wait for other processes."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Begin with files that have slow tests, so that short ones fill up the end; where some wait, others compute."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    begun = _interleaved(item.path for item in items if item.path in slow)
    places = {path: place for place, path in enumerate(begun)}
    items.sort(key=lambda item: places.get(item.path, len(places)))
    for item in items:
        item.add_marker(pytest.mark.xdist_group(TOGETHER.get(item.path.name, item.path.name)))


def _interleaved(paths):
    """One file that waits to two that compute."""
    files = list(dict.fromkeys(paths))
    waiting = [path for path in files if any(part in str(path) for part in WAITING)]
    computing = [path for path in files if path not in waiting]
    while waiting or computing:
        yield from (*waiting[:1], *computing[:2])
        del waiting[:1], computing[:2]
