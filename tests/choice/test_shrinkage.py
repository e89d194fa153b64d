"""Noise is separated from misfit, and lucky measurements are shrunk towards the law."""

from dataclasses import replace

import numpy as np
import pytest
from planted import law_error, planted, unpruned_error

from prunecast import choose, fit, read
from prunecast.choice import candidates, counter
from prunecast.choice.options import measured_options
from prunecast.choice.shrinkage import run_noise, shrink_curve, shrink_unpruned
from prunecast.laws import Fit

DENSITY = 0.8 ** np.arange(20)


@pytest.mark.parametrize("scatter", [0.01, 0.034, 0.1])
@pytest.mark.parametrize("replicates", [1, 3])
def test_the_planted_noise_is_found(scatter: float, replicates: int) -> None:
    table = read(planted(configurations=30, num_examples=(50_000,), noise=scatter, replicates=replicates))
    assert run_noise(fit(table)) == pytest.approx(scatter, rel=0.15)


def test_a_smooth_misfit_is_no_noise(eq2: Fit, dip: Fit) -> None:
    """Eq. 2 misses the dips by up to 30%, the law `dip` by a tenth of that; the trainings scatter all the same."""
    assert run_noise(eq2) == pytest.approx(run_noise(dip), rel=0.1)
    assert run_noise(eq2) < eq2.spread.run / 2


def test_without_misfit_all_deviations_are_luck() -> None:
    deviation = 0.03 * np.random.default_rng(0).standard_normal(20)
    settled, doubt = shrink_curve(DENSITY, deviation, np.full(20, 0.03**2), 0.0)
    assert (settled == 0).all()
    assert (doubt == 0).all()


def test_a_dip_stays_and_a_lucky_row_does_not() -> None:
    dip = -0.2 * np.exp(-(((np.arange(20) - 10) / 5) ** 2))
    lucky = dip.copy()
    lucky[15] -= 0.1
    settled, doubt = shrink_curve(DENSITY, lucky, np.full(20, 0.03**2), 0.1**2)
    others = np.abs(np.arange(20) - 15) > 2
    np.testing.assert_allclose(settled[others], dip[others], atol=0.02)
    assert settled[15] > lucky[15] + 0.05
    assert (doubt < 0.03**2).all()


def test_a_lucky_unpruned_error_is_drawn_towards_the_dense_law(eq2: Fit) -> None:
    own = run_noise(eq2)
    measured, predicted, one = np.array([0.10]), np.array([0.12]), np.ones(1)
    exact = replace(eq2, dense=replace(eq2.dense, deviation=own))
    assert shrink_unpruned(exact, measured, predicted, one)[0] == pytest.approx(predicted)
    rough = replace(eq2, dense=replace(eq2.dense, deviation=100 * own))
    assert shrink_unpruned(rough, measured, predicted, one)[0] == pytest.approx(measured, rel=1e-3)
    between, less = shrink_unpruned(eq2, measured, predicted, one)
    assert measured < between < predicted
    assert 0 < less < own**2
    alone = shrink_unpruned(replace(eq2, dense=None), measured, predicted, one)
    assert (alone[0], alone[1]) == (measured, 0)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_expected_of_measured_rows_is_nearer_the_truth(seed: int) -> None:
    frame = planted(configurations=30, num_examples=(50_000,), seed=seed)
    law = fit(read(frame))
    rows = measured_options(law, candidates(law, counter(law), 50_000.0, "measured"))
    names = {"depth": rows.networks.depth, "width": rows.networks.width, "density": rows.density}
    truth = frame.iloc[[0] * len(rows)].assign(**names, weights=13_500 * names["depth"] * names["width"] ** 2)
    true = np.where(rows.density == 1, unpruned_error(truth), law_error(truth))
    scatter = [np.sqrt(np.mean((value - np.log(true)) ** 2)) for value in (rows.log_error, rows.log_expected)]
    assert scatter[1] < 0.5 * scatter[0]


def test_a_lucky_row_is_no_answer() -> None:
    """A single training far better than its neighbours does not set the size to choose."""
    frame = planted(
        configurations=30, num_examples=(50_000,), depths=(20,), widths=[2**i for i in range(-4, 3)]
    )
    plain = choose(read(frame), target_error=0.2).answer
    at = frame.index[(frame["width"] == 1) & (frame["level"] == 22)]
    lucky = frame.assign(error=frame["error"].where(~frame.index.isin(at), 0.19))
    assert frame.loc[at, "error"].min() > 0.25
    found = choose(read(lucky), target_error=0.2)
    assert found.answer.source == "law"
    assert found.answer.nonzero_parameters == pytest.approx(plain.nonzero_parameters, rel=0.1)
