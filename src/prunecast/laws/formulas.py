"""The formulas of the field, each written once, with the paper's symbols.

Legend: d density (share of prunable weights kept) · l depth · w width · n number of training examples · ε error
· ε_np error of the unpruned network · ε↑ error of the high plateau · γ slope of the power-law region ·
p, p′ where the high plateau ends, in d and in m* · φ, ψ exponents of depth and width in the invariant m* · s sharpness
of the bends between the plateaus and the power law, 2 in the paper.

All functions broadcast, and accept dual numbers where derivatives are wanted.
"""

from typing import NamedTuple

import numpy as np

from prunecast.laws.dual import Array

MAX_EXPONENT = 300.0
"""Exponents are clipped here to avoid overflow; the error reaches its plateau long before."""


def power(base: Array, exponent: Array) -> Array:
    """base^exponent of a positive base, faster than the operator."""
    return np.exp(exponent * np.log(base))


def log_invariant(log_density: Array, log_depth: Array, log_width: Array, phi: Array, psi: Array) -> Array:
    """log m* of the error-preserving invariant m* = l^φ · w^ψ · d."""
    return log_density + phi * log_depth + psi * log_width


class PrunedError(NamedTuple):
    """log ε̂ of Eq. 2 and the parts of its derivatives (see `pruned_error`)."""

    log_error: Array
    log_ratio: Array
    """log of [(m*ˢ + p′ˢR) / (m*ˢ + p′ˢ)], R = (ε↑/ε_np)^(s/γ)"""
    upper: Array
    """σ₁ = p′ˢR / (m*ˢ + p′ˢR): 0 on the low plateau, 1 beyond it"""
    lower: Array
    """σ₀ = p′ˢ / (m*ˢ + p′ˢ): 0 up to the power-law region, 1 on the high plateau"""


def transitions(
    log_height: Array, gamma: Array, log_p: Array, log_scale: Array, sharpness: Array | float = 2.0
) -> tuple[Array, Array]:
    """The densities of the two transitions to the power s, pˢ and pˢ(ε↑/ε_np)^(s/γ), with p = p′/(l^φ w^ψ).

    The arguments are log(ε↑/ε_np), γ, log p′, log(l^φ w^ψ) and s: none depends on density, so this is computed once
    per configuration.
    """
    high = sharpness * (log_p - log_scale)
    low = high + sharpness * log_height / gamma
    return np.exp(np.minimum(high, MAX_EXPONENT)), np.exp(np.minimum(low, MAX_EXPONENT))


def pruned_error(
    log_unpruned: Array,
    inverse_power: Array,
    high: Array,
    low: Array,
    gamma: Array,
    sharpness: Array | float = 2.0,
) -> PrunedError:
    """ε̂ = ε_np · [ (m*ˢ + p′ˢ(ε↑/ε_np)^(s/γ)) / (m*ˢ + p′ˢ) ]^(γ/s): Eq. 1 and Eq. 2 with s = 2.

    The arguments are log ε_np, d⁻ˢ, the two `transitions`, γ and s. The derivatives of log ε̂ are
    ∂/∂log ε↑ = σ₁ · ∂/∂log γ = (γ/s)·log_ratio − σ₁·log(ε↑/ε_np) · ∂/∂log p′ = −∂/∂log m* = γ(σ₁ − σ₀) ·
    ∂/∂log ε_np = 1 − σ₁ · ∂/∂log s = (γ/s)·[σ₁ log(p′ˢR/m*ˢ) − σ₀ log(p′ˢ/m*ˢ) − log_ratio].
    """
    above, below = low * inverse_power, high * inverse_power
    upper_sum, lower_sum = 1 + above, 1 + below
    above /= upper_sum
    below /= lower_sum
    upper_sum /= lower_sum
    log_ratio = np.log(upper_sum)
    return PrunedError(log_unpruned + gamma / sharpness * log_ratio, log_ratio, upper=above, lower=below)


def density_of(
    log_unpruned: Array,
    log_error: Array,
    high: Array,
    low: Array,
    gamma: Array,
    sharpness: Array | float = 2.0,
) -> Array:
    """`pruned_error` solved for density: dˢ = (pˢR − pˢq) / (q − 1), q = (ε/ε_np)^(s/γ).

    `high` and `low` are the two `transitions` pˢ and pˢR. Infinite if ε ≤ ε_np, which Eq. 2 never reaches; zero
    where ε ≥ ε↑, which every density keeps.
    """
    log_q = np.minimum(sharpness / gamma * (log_error - log_unpruned), MAX_EXPONENT)
    powered = np.maximum(low - high * np.exp(log_q), 0.0) / np.where(log_q > 0, np.expm1(log_q), 1.0)
    return np.where(log_q > 0, powered ** (1 / sharpness), np.inf)


def lower_transition(
    log_unpruned: Array, log_m: Array, log_height: Array, gamma: Array, log_p: Array
) -> Array:
    """Log of Eq. 2 far from the high plateau, m* ≫ p′: ε̂ = ε_np · [1 + (p′/m*)²(ε↑/ε_np)^(2/γ)]^(γ/2).

    ε↑ and p′ act only through p′·ε↑^(1/γ), so one of the two has to be fixed.
    """
    return log_unpruned + gamma / 2 * np.log(1 + np.exp(2 * (log_p - log_m + log_height / gamma)))


def envelope(normalized: Array, ceiling: Array, eta: Array) -> Array:
    """Log of the envelope of Rosenfeld 2020: ε̂ = ε₀ · |ε̃ / (ε̃ − jη)| = ε₀ ε̃ / √(ε̃² + η²)."""
    return np.log(ceiling) + np.log(normalized) - np.log(normalized**2 + eta**2) / 2


def adapted_rosenfeld(unpruned: Array, m: Array, b: Array, beta: Array) -> Array:
    """Rosenfeld 2020 adapted to density: ε̃ = b·m*^−β + ε_np − b, equal to ε_np at m* = 1."""
    return b * power(m, -beta) + unpruned - b


def dense_normalized(
    num_examples: Array, size: Array, a: Array, alpha: Array, b: Array, beta: Array, floor: Array
) -> Array:
    """ε̃ of the dense law of Rosenfeld 2020: ε̃ = a·n^−α + b·M^−β + c∞, M the number of parameters."""
    return a * power(num_examples, -alpha) + b * power(size, -beta) + floor


def broken_power_law(
    x: Array, a: Array, b: Array, c0: Array, break_at: Array, c1: Array, sharpness: Array
) -> Array:
    """Broken neural scaling law with one break: a + b·x^−c₀ · (1 + (x/d₁)^(1/f₁))^(−c₁f₁)."""
    bend = power(1 + power(x / break_at, 1 / sharpness), -c1 * sharpness)
    return a + b * power(x, -c0) * bend


def sparse_scaling(
    density: Array,
    nonzero: Array,
    num_examples: Array,
    a_s: Array,
    b_s: Array,
    c_s: Array,
    b_n: Array,
    a_d: Array,
    b_d: Array,
    c: Array,
) -> Array:
    """Frantar 2023: (a_S·d^b_S + c_S)·N^−b_N + (a_D/n)^b_D + c with N the non-zero parameters."""
    return (a_s * power(density, b_s) + c_s) * power(nonzero, -b_n) + power(a_d / num_examples, b_d) + c
