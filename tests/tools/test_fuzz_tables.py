"""A short run of the fuzzer of tables; `make fuzz` is the long one."""

from fuzz_tables import fuzz


def test_no_damaged_table_ends_in_a_traceback_or_a_hang(tmp_path):
    counts, findings = fuzz(60, 0, tmp_path)
    assert findings == []
    assert counts["refused"] > 20
    assert counts["answered"] > 5
