"""A short run of the fuzzer of store files; `make fuzz` is the long one."""

import random

from fuzz_store import fuzz
from fuzzing import altered, places


def test_no_damaged_or_forged_file_ends_in_a_traceback_or_a_hang(tmp_path):
    counts, findings = fuzz(60, 0, tmp_path)
    assert findings == []
    assert counts["refused"] > 5
    assert counts["same numbers"] > 5


def test_every_place_of_a_file_can_be_altered():
    body = {"a": [1, {"b": 2}], "c": {}}
    assert set(places(body)) == {("a",), ("a", 0), ("a", 1), ("a", 1, "b"), ("c",)}
    assert altered(body, random.Random(0))
    assert body != {"a": [1, {"b": 2}], "c": {}}
