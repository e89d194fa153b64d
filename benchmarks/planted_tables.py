"""The planted tables of the tests (`tests/common/planted.py`), for the benchmarks."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests" / "common"))

from planted import TRUTH, WEIGHTS, law_error, planted, unpruned_error

__all__ = ["TRUTH", "WEIGHTS", "law_error", "planted", "unpruned_error"]
