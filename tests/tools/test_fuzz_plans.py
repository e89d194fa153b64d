"""A short run of the fuzzer of plans; `make fuzz` is the long one."""

from fuzz_plans import fuzz


def test_no_damaged_plan_ends_in_a_traceback_or_a_hang(tmp_path):
    counts, findings = fuzz(120, 0, tmp_path)
    assert findings == []
    assert counts["refused"] > 40
    assert counts["answered"] > 10
