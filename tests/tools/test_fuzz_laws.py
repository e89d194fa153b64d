"""A short run of the fuzzer of saved laws; `make fuzz` is the long one."""

import pytest
from fuzz_laws import fuzz


@pytest.mark.slow
def test_no_altered_law_ends_in_a_traceback_or_a_hang(tmp_path):
    counts, findings = fuzz(80, 0, tmp_path)
    assert findings == []
    assert counts["refused"] > 40
    assert counts["same answers"] + counts["other answers"] > 5
