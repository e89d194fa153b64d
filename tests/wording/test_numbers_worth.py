"""Numbers have the digits that they are worth."""

import pytest

from prunecast.wording import numbers


@pytest.mark.parametrize(
    ("value", "ends", "shown", "span"),
    [
        (0.19324, (0.17468, 0.21378), "0.193", "0.175 to 0.214"),
        (0.6672, (0.5862, 0.7594), "0.67", "0.59 to 0.76"),
        (0.0032, (0.0031, 0.0033), "0.00320", "0.00310 to 0.00330"),
        (12.34, (10.1, 15.2), "12.3", "10.1 to 15.2"),
        (0.2, (0.2, 0.2), "0.2000", "0.2000 to 0.2000"),
    ],
)
def test_estimates_have_two_digits_of_their_interval(value, ends, shown, span):
    assert numbers.estimate(value, ends) == shown
    assert numbers.interval(ends) == span


@pytest.mark.parametrize(
    ("value", "ends", "shown", "span"),
    [
        (0.4784, (0.4321, 0.5194), "0.478", "0.432 to 0.519"),
        (0.3514, (0.1791, 0.6523), "0.35", "0.18 to 0.65"),
        (1.094, (0.9941, 1.172), "1.09", "0.99 to 1.17"),
        (2.29e-05, (4.77e-06, 0.0213), "0.000023", "0.0000048 to 0.021"),
        (12.31, (0.0111, 4110.0), "12", "0.011 to 4,100"),
        (-0.05, (-0.734, 1.57), "−0.050", "−0.73 to 1.6"),
        (0.9, (0.9, 0.9), "0.9", "0.9 to 0.9"),
    ],
)
def test_parameters_have_the_digits_of_their_interval(value, ends, shown, span):
    assert numbers.parameter(value, ends) == shown
    assert " to ".join(numbers.parameter(end, ends) for end in ends) == span


@pytest.mark.parametrize(
    ("density", "said"),
    [(0.134, "13%"), (0.0737, "7.4%"), (0.00196, "0.2%"), (1.0, "100%"), (0.9996, "99.96%")],
)
def test_densities_as_weights_kept(density, said):
    assert numbers.kept(density) == f"{said} of its weights"


@pytest.mark.parametrize(
    ("value", "said"), [(0.8, "80%"), (1.0, "more than 99%"), (0.0, "less than 1%"), (0.985, "98%")]
)
def test_no_probability_is_certain(value, said):
    assert numbers.probability(value) == said


def test_no_number_is_shown_in_powers_of_ten():
    assert [numbers.number(value) for value in (2.29e-05, -4.8e-06, 1234567.0)] == [
        "0.0000229",
        "−0.0000048",
        "1,234,567",
    ]
