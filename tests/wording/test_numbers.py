"""Numbers as people write them."""

from types import SimpleNamespace

import pytest

from prunecast.wording import numbers

NAN = float("nan")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (20, "20"),
        (0.0625, "1/16"),
        (1 / 3, "1/3"),
        (0.390625, "0.3906"),
        (0.75, "0.75"),
        (1.5, "1.5"),
        (2000, "2,000"),
    ],
)
def test_sizes(value, text):
    assert numbers.size(value) == text


@pytest.mark.parametrize(
    ("function", "value", "text"),
    [
        (numbers.count, 1234.6, "1,235"),
        (numbers.count, 12.34567, "12.35"),
        (numbers.count, 7.0, "7"),
        (numbers.error, 0.12345, "0.1235"),
        (numbers.error, 2.5, "2.5000"),
        (numbers.error, 82.387, "82.39"),
        (numbers.error, 6059.8, "6,060"),
        (numbers.error, 0.000123, "0.00012"),
        (numbers.error, 0.00000123, "0.0000012"),
        (numbers.error, NAN, "–"),
        (numbers.density, 0.8**11, "0.0859"),
        (numbers.density, 0.8**42, "0.00008507"),
        (numbers.target, 0.00012, "0.00012"),
        (numbers.target, 0.000012, "0.000012"),
        (numbers.target, 1_234_567, "1234570"),
        (numbers.percent, -0.034, "−3.4%"),
        (numbers.percent, -0.0001, "0.0%"),
        (numbers.percent, None, "–"),
        (numbers.share, 0.5, "50%"),
        (numbers.share, 0.00123, "0.12%"),
        (numbers.share, 0.000000123, "0.000012%"),
        (numbers.number, 12345.6, "12,346"),
        (numbers.number, -0.012345, "−0.0123"),
        (numbers.number, NAN, "–"),
        (numbers.signed, -1.234, "−1.23"),
        (numbers.signed, NAN, "–"),
        (numbers.probability_cell, 0.804, "80%"),
        (numbers.probability_cell, 0.9996, ">99%"),
        (numbers.probability_cell, 0.0001, "<1%"),
        (numbers.interval, (0.1, 0.25), "0.10 to 0.25"),
        (numbers.axis, "num_examples", "training examples"),
    ],
)
def test_numbers(function, value, text):
    assert function(value) == text


def test_deviations():
    assert numbers.deviation(SimpleNamespace(mean=-0.012, std=0.034)) == "−1.2% ± 3.4%"
    assert numbers.deviation(SimpleNamespace(mean=NAN, std=NAN)) == "too few"
    assert numbers.percent(0.1234, sign=True, digits=0) == "+12%"
