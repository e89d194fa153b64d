"""Residuals, covariance and information criteria of a fit."""

import numpy as np
import pandas as pd
import pytest
from planted import planted

from prunecast.laws import Fit, fit, load
from prunecast.table import read


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return planted(configurations=12, seed=4)


@pytest.fixture(scope="module")
def fitted(frame) -> Fit:
    return fit(frame, law="eq2")


def test_residuals_are_the_deviations_that_the_fit_reports(fitted):
    found = fitted.residuals
    assert len(found) == fitted.rows
    assert found["residual"].mean() == pytest.approx(fitted.deviation.mean, abs=1e-9)
    assert found["residual"].std(ddof=0) == pytest.approx(fitted.deviation.std, rel=1e-9)
    assert (found["estimate"] / found["error"] - 1).to_numpy() == pytest.approx(found["residual"].to_numpy())


def test_a_saved_law_keeps_its_residuals(fitted, tmp_path):
    fitted.save(tmp_path / "law.json")
    again = load(tmp_path / "law.json")
    assert again.residuals["residual"].to_numpy() == pytest.approx(fitted.residuals["residual"].to_numpy())
    assert (again.aic, again.bic) == pytest.approx((fitted.aic, fitted.bic))


def test_each_replicates_residuals(shipped):
    each = fit(shipped, law="eq2", replicates="each")
    assert len(each.residuals) == each.rows


def test_the_covariance_agrees_with_the_intervals(fitted):
    """The intervals of determined parameters are log θ ± t·σ, so their widths give σ; 400 draws give it to a tenth."""
    from scipy import special

    t = special.stdtrit(fitted.spread.degrees, 0.975)
    found = fitted.covariance
    assert list(found) == list(found.index) == list(fitted.parameters)
    for name, value in fitted.parameters.items():
        low, high = np.log(fitted.intervals[name])
        assert np.sqrt(found.loc[name, name]) / value == pytest.approx((high - low) / 2 / t, rel=0.15), name
    assert np.allclose(found, found.T)


def test_fixed_parameters_have_no_covariance(frame):
    held = fit(frame, law="eq2", high_error=0.9)
    assert (held.covariance.loc["high_error"] == 0).all()
    assert held.free == len(held.parameters) - 1


def test_criteria_prefer_the_law_that_made_the_data(frame, fitted):
    """Planted by Eq. 2: the dip law fits at least as well with more parameters, which BIC does not reward."""
    assert fitted.bic < fit(frame, law="sharp-dip").bic
    residual = fitted.residuals["residual"].to_numpy()
    n, k = len(residual), fitted.free + 1
    likelihood = -n / 2 * (np.log(2 * np.pi * np.mean(residual**2)) + 1)
    assert fitted.aic == pytest.approx(2 * k - 2 * likelihood)
    assert fitted.bic == pytest.approx(k * np.log(n) - 2 * likelihood)


def test_a_parameter_at_its_bound_has_no_known_covariance(shipped):
    """ρ of the dip law ends at a bound behind the intervals of these five widths."""
    own = fit(shipped, law="dip")
    assert own.covariance.loc["dip_ratio"].isna().all()
    assert own.covariance.drop(index="dip_ratio", columns="dip_ratio").notna().to_numpy().all()
    low, high = own.intervals["dip_ratio"]
    assert high > 1000 * low


@pytest.mark.parametrize("kind", ["frame", "path", "name", "table"])
def test_a_law_is_fitted_to_whatever_holds_a_table(kind, frame, fitted, tmp_path):
    frame.to_csv(tmp_path / "own.csv", index=False)
    given = {
        "frame": frame,
        "path": tmp_path / "own.csv",
        "name": str(tmp_path / "own.csv"),
        "table": read(frame),
    }
    found = fit(given[kind], law="eq2")
    assert found.parameters == pytest.approx(fitted.parameters)
