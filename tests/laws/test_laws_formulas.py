import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunecast.laws import formulas


def pruned(d, unpruned, high, gamma, p, log_scale=0.0):
    """ε̂ of Eq. 2 in natural parameters."""
    edges = formulas.transitions(np.log(high / unpruned), gamma, np.log(p), log_scale)
    return np.exp(formulas.pruned_error(np.log(unpruned), np.atleast_1d(d) ** -2.0, *edges, gamma).log_error)


def log_uniform(low, high):
    return st.floats(np.log(low), np.log(high)).map(np.exp)


CASES = {
    "d": log_uniform(1e-5, 1),
    "unpruned": log_uniform(0.01, 0.5),
    "high": st.floats(0.5, 1),
    "gamma": log_uniform(0.2, 5),
    "p": log_uniform(1e-6, 1),
}


@given(**CASES)
def test_equals_the_papers_complex_form(d, unpruned, high, gamma, p):
    theirs = unpruned * (abs(d - 1j * p * (high / unpruned) ** (1 / gamma)) / abs(d - 1j * p)) ** gamma
    assert pruned(d, unpruned, high, gamma, p) == pytest.approx(theirs, rel=1e-12)


@given(
    **CASES,
    depth=log_uniform(1, 200),
    width=log_uniform(1 / 64, 8),
    phi=st.floats(-2, 3),
    psi=st.floats(-2, 3),
)
def test_equal_invariants_give_equal_ratios(d, unpruned, high, gamma, p, depth, width, phi, psi):
    log_scale = formulas.log_invariant(0.0, np.log(depth), np.log(width), phi, psi)
    invariant = np.exp(formulas.log_invariant(np.log(d), np.log(depth), np.log(width), phi, psi))
    assert pruned(d, unpruned, high, gamma, p, log_scale) == pytest.approx(
        pruned(invariant, unpruned, high, gamma, p), rel=1e-10
    )


@given(**CASES)
def test_lies_between_the_plateaus_and_falls_with_density(d, unpruned, high, gamma, p):
    here, denser = pruned(np.array([d, min(1.0, 1.1 * d)]), unpruned, high, gamma, p)
    assert unpruned * (1 - 1e-12) <= here <= high * (1 + 1e-12)
    assert denser <= here * (1 + 1e-12)


def test_limits():
    law = {"unpruned": 0.05, "high": 0.9, "gamma": 0.6, "p": 1e-6}
    assert pruned(1e-12, **law) == pytest.approx(0.9, rel=1e-9)
    assert pruned(1.0, **law) == pytest.approx(0.05, rel=1e-6)
    # Half-way (in log) between the transitions p and p(ε↑/ε_np)^(1/γ).
    d = 1e-6 * (0.9 / 0.05) ** (0.5 / 0.6)
    slope = np.log(pruned(d * 1.01, **law) / pruned(d / 1.01, **law)) / np.log(1.01**2)
    assert slope == pytest.approx(-0.6, rel=0.02)
    # There the plateaus pull equally, so the error is exactly their geometric mean.
    assert pruned(d, **law) == pytest.approx(np.sqrt(0.05 * 0.9), rel=1e-9)


@pytest.mark.parametrize(
    ("d", "unpruned", "high", "gamma", "p", "expected"),
    [
        # By hand: with γ = 2 the law is ε_np (d² + p²ε↑/ε_np)/(d² + p²).
        (0.1, 0.1, 0.9, 2.0, 0.1, 0.1 * (0.01 + 0.01 * 9) / 0.02),
        (0.5, 0.2, 0.8, 2.0, 0.05, 0.2 * (0.25 + 0.0025 * 4) / 0.2525),
        # With γ = 1 the root of (d² + p²(ε↑/ε_np)²)/(d² + p²).
        (0.3, 0.1, 0.4, 1.0, 0.1, 0.1 * np.sqrt((0.09 + 0.01 * 16) / 0.1)),
        (1e-100, 0.1, 0.9, 0.5, 1e-3, 0.9),
    ],
)
def test_known_values(d, unpruned, high, gamma, p, expected):
    assert pruned(d, unpruned, high, gamma, p) == pytest.approx(expected, rel=1e-12)


@given(**{name: CASES[name] for name in ("d", "unpruned", "high", "gamma")})
def test_lower_transition_is_the_limit_far_from_the_high_plateau(d, unpruned, high, gamma):
    p = 1e-4 * d
    lower = formulas.lower_transition(np.log(unpruned), np.log(d), np.log(high / unpruned), gamma, np.log(p))
    assert np.exp(lower) == pytest.approx(pruned(d, unpruned, high, gamma, p), rel=1e-7)


def test_adapted_form_meets_the_unpruned_error_at_density_one():
    assert formulas.adapted_rosenfeld(0.1, 1.0, 0.03, 0.7) == pytest.approx(0.1)
    assert formulas.adapted_rosenfeld(0.1, 0.25, 0.03, 0.5) == pytest.approx(0.03 * 2 + 0.07)


@given(tilde=log_uniform(1e-4, 1e3), ceiling=st.floats(0.1, 1), eta=log_uniform(0.1, 10))
def test_envelope_is_the_papers_complex_form(tilde, ceiling, eta):
    theirs = ceiling * abs(tilde / (tilde - 1j * eta))
    assert np.exp(formulas.envelope(tilde, ceiling, eta)) == pytest.approx(theirs, rel=1e-12)


def test_rivals_at_known_values():
    dense = formulas.dense_normalized(100.0, 16.0, 2.0, 0.5, 4.0, 0.25, 0.1)
    assert dense == pytest.approx(0.2 + 2 + 0.1)
    broken = formulas.broken_power_law(4.0, 0.1, 2.0, 0.5, 4.0, 1.0, 2.0)
    assert broken == pytest.approx(0.1 + 2 * 4**-0.5 * 2**-2)
    sparse = formulas.sparse_scaling(0.25, 100.0, 50.0, 2.0, 0.5, 1.0, 0.5, 5.0, 2.0, 0.03)
    assert sparse == pytest.approx((2 * 0.5 + 1) / 10 + 0.01 + 0.03)
