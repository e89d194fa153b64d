"""Tables of every shape through `fit`: losses, missing columns, one curve, too little, very much."""

import numpy as np
import pandas as pd
import pytest
from planted import TRUTH, planted

from prunecast.errors import PrunecastError
from prunecast.laws import fit, load, measured
from prunecast.table import read

CURVE = ["density", "error"]


def test_losses_above_one_give_the_same_law_scaled():
    """Eq. 2 is homogeneous in errors: a table of ten times the errors has ten times ε↑ and all else equal."""
    frame = planted(configurations=12, seed=1)
    errors = fit(read(frame))
    loss = frame.drop(columns="error").assign(loss=10 * frame["error"])
    losses = fit(read(loss, metric="loss"))
    assert losses.metric == "loss"
    assert losses.parameters["high_error"] > 1
    expected = {**errors.parameters, "high_error": 10 * errors.parameters["high_error"]}
    assert losses.parameters == pytest.approx(expected, rel=1e-5)
    assert losses.deviation.std == pytest.approx(errors.deviation.std, rel=1e-5)
    prediction = losses.predict([0.5, 0.001], depth=20, width=1, num_examples=50_000, unpruned_error=1.5)
    assert (prediction.upper > prediction.error).all()
    assert prediction.error[1] > 1.5


def test_every_replicate_or_their_mean():
    table = read(planted(configurations=6, replicates=3, seed=1))
    mean, each = fit(table), fit(table, replicates="each")
    assert each.rows == 3 * mean.rows == len(table)
    assert each.parameters == pytest.approx(mean.parameters, rel=0.05)
    assert each.options["replicates"] == "each"


def test_a_table_of_density_and_error_alone():
    frame = planted(configurations=1, depths=(20,), widths=(0.25,), num_examples=(50_000,), seed=1)
    whole, bare = fit(read(frame)), fit(read(frame[CURVE]))
    assert (bare.law, bare.axes) == ("eq1", ())
    assert bare.parameters == pytest.approx(whole.parameters)
    assert bare.predict(0.1).error == pytest.approx(whole.predict(0.1).error)


def test_a_table_without_width_leaves_psi_out():
    frame = planted(configurations=5, widths=(1.0,), num_examples=(50_000,), seed=1)
    result = fit(read(frame.drop(columns=["width", "num_examples"])))
    assert list(result.parameters) == ["high_error", "gamma", "p", "phi"]
    assert result.parameters["phi"] == pytest.approx(TRUTH["phi"], rel=0.05)


def test_stated_unpruned_errors_serve_as_measured_ones():
    frame = planted(configurations=6, seed=1)
    level_0 = frame[frame["level"] == 0].set_index(["depth", "width", "num_examples"])["error"]
    stated = frame.join(level_0.rename("unpruned_error"), on=["depth", "width", "num_examples"])
    without = fit(read(stated[stated["level"] > 0]))
    assert without.rows == fit(read(frame)).rows - 6
    assert without.parameters == pytest.approx(fit(read(frame)).parameters, rel=0.02)


FEW = pd.DataFrame({"density": [1.0, 0.5, 0.1], "error": [0.1, 0.12, 0.4]})


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (
            FEW,
            {},
            "DataFrame: 3 usable rows cannot determine 3 parameters; measure more levels or configurations",
        ),
        (
            pd.DataFrame({"width": [1, 2, 3, 4, 5], "density": 1.0, "error": [0.5, 0.4, 0.3, 0.2, 0.1]}),
            {},
            "DataFrame: every row has density 1, but a pruning law needs pruned networks; add their rows",
        ),
        (
            FEW.assign(dataset="cifar10", error=[0.9, 0.91, 0.95]),
            {},
            "DataFrame: no row does better than chance (error 0.9), so there is nothing to fit; "
            "train longer or larger networks",
        ),
        (FEW, {"residual": "square"}, "no residual is called 'square'; choose relative or log"),
        (FEW, {"huber": 0.0}, "the Huber threshold must be positive, not 0"),
        (FEW, {"huber": float("nan")}, "the Huber threshold must be positive, not nan"),
        (FEW, {"high_error": "often"}, "ε↑ can be free, chance or a number, not 'often'"),
        (FEW, {"high_error": 0.05}, "ε↑ is 0.05, but for this table it must be between 0.2 and 1"),
        (FEW, {"high_error": 2.0}, "ε↑ is 2, but for this table it must be between 0.2 and 1"),
        (
            FEW,
            {"law": "eq3"},
            "No law is called 'eq3'; choose one of eq2, dip, sharp, sharp-dip. Did you mean eq2? To use a law of your "
            "own, "
            "name it as module:attribute, or import the module that registers it.",
        ),
    ],
)
def test_refusals(frame, options, message):
    with pytest.raises(PrunecastError) as caught:
        fit(read(frame), **options)
    assert str(caught.value) == message


def test_three_rows_suffice_where_high_error_is_fixed():
    """Two free parameters need three rows."""
    result = fit(read(FEW), high_error=0.9)
    assert result.fixed == ("high_error",)
    assert result.deviation.std < 0.05


@pytest.mark.parametrize("error", [0.3, 1.0])
def test_a_flat_curve_is_fitted_without_a_warning(error):
    flat = pd.DataFrame({"density": 0.8 ** np.arange(12), "error": error})
    result = fit(read(flat))
    assert result.deviation.rms < 1e-6
    assert "gamma" in result.undetermined


def test_flat_curves_that_every_law_meets_exactly_are_fitted_by_the_simplest():
    flat = pd.DataFrame({"density": 0.8 ** np.arange(9), "error": 0.25})
    result = fit(read(pd.concat([flat.assign(width=width) for width in (1, 2, 4, 8)]), chance=0.9))
    assert (result.law, result.rises) == ("eq2", False)
    assert result.held_out["eq2"] == 0
    assert sum(one.weight for one in result.alternatives) < 1


def test_a_level_that_lacks_its_unpruned_row_only_in_one_replicate():
    frame = planted(configurations=4, replicates=2, seed=1)
    frame = frame[~((frame["replicate"] == 2) & (frame["level"] == 0))]
    result = fit(read(frame))
    assert {c.replicates for c in result.configurations} == {1.0}


@pytest.mark.slow
def test_a_million_rows():
    rng = np.random.default_rng(0)
    frame = planted(replicates=240, seed=88)
    assert len(frame) > 1_000_000
    result = fit(read(frame.sample(frac=1, random_state=rng)))
    assert result.rows == 4301
    for name, truth in TRUTH.items():
        assert result.parameters[name] == pytest.approx(truth, rel=0.02)
    assert result.noise_floor.replicate == pytest.approx(0.034, rel=0.01)


def test_rows_in_any_order_give_the_same_points():
    """Weights are those of the densest network, not of whichever row comes first."""
    frame = planted(configurations=6, replicates=2)
    one, other = (measured(read(own)).points for own in (frame, frame.sample(frac=1, random_state=0)))
    for name in ("configuration", "density", "error", "nonzero", "weights", "unpruned", "replicates"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-14), name


@pytest.mark.parametrize(
    "lost",
    [
        lambda f: f.drop(columns="nonzero"),
        lambda f: f.assign(nonzero=f["nonzero"].where(f["level"] != 3)),
        lambda f: f.assign(nonzero=f["nonzero"].where(f["level"] != 3, 0)),
    ],
)
def test_weights_stand_in_for_counts_that_are_missing(lost):
    frame = planted(configurations=4)
    whole, part = measured(read(frame)).points, measured(read(lost(frame))).points
    assert part.weights == pytest.approx(whole.weights, rel=1e-12)
    assert part.nonzero == pytest.approx(whole.nonzero, rel=0.2)
    volume = whole.depth * whole.width**2
    bare = measured(read(lost(frame).drop(columns="weights"))).points
    assert bare.weights == pytest.approx(volume, rel=1e-12)


def test_a_replicate_that_never_learned_is_no_part_of_the_unpruned_error():
    frame = planted(configurations=4, replicates=2, seed=2)
    dead = (frame["replicate"] == 2) & (frame["weights"] == frame["weights"].min())
    points = measured(read(frame.assign(error=frame["error"].where(~dead, 0.9)), chance=0.9)).points
    own = int(points.weights.argmin())
    alone = frame[(frame["weights"] == frame["weights"].min()) & (frame["replicate"] == 1)]
    assert points.unpruned[own] == alone.loc[alone["level"] == 0, "error"].item()
    assert points.unpruned_replicates[own] == 1
    assert points.error[points.configuration == own][0] == points.unpruned[own]


def test_an_open_interval_is_a_number_that_a_saved_law_keeps(tmp_path):
    """Errors that only fall as networks are pruned leave Eq. 2 without any hold."""
    frame = planted(configurations=6)
    result = fit(read(frame.assign(error=0.5 * frame["density"] ** 0.3)))
    assert all(np.isfinite(end) for ends in result.intervals.values() for end in ends)
    result.save(tmp_path / "law.json")
    assert load(tmp_path / "law.json").parameters == pytest.approx(result.parameters)
