import numpy as np
import pytest
from planted import TRUTH, law_error, planted, unpruned_error

from prunecast.errors import PrunecastError
from prunecast.laws import fit
from prunecast.laws.identify import levels_to, plateau_reached
from prunecast.laws.measured import measured
from prunecast.table import read


def noted(result, kind, parameter=None):
    return [note for note in result.notes if note.kind == kind and note.parameter == parameter]


def test_curves_that_never_leave_the_low_plateau():
    frame = planted(configurations=6, seed=2, noise=0.01)
    frame = frame[frame["error"] < 1.15 * unpruned_error(frame)]
    result = fit(read(frame))
    (note,) = noted(result, "undetermined", "gamma")
    assert "γ is not determined: the error never passes" in note.text
    assert f"prune {note.more_levels} more levels" in note.text
    # From 1.15 ε_np to 3 ε_np at a slope of about γ: log(3/1.15)/(0.6·log 1.25) is 7.2.
    assert 5 <= note.more_levels <= 12
    assert {"high_error", "gamma", "p"} <= set(result.undetermined)


def test_more_levels_are_those_the_law_says():
    frame = planted(configurations=1, depths=(20,), widths=(0.5,), num_examples=(50_000,), noise=0.0)
    top, target = frame["error"][frame["level"] == 20].item(), 0.4
    reached = frame[frame["error"] >= target]["level"].min()
    assert top < target
    assert 20 + levels_to(target, top, TRUTH["gamma"]) == pytest.approx(reached, abs=1)
    assert levels_to(0.01, top, 0.5) == 1


@pytest.mark.parametrize(("axis", "parameter"), [("depth", "phi"), ("width", "psi")])
def test_two_sizes_determine_an_exponent_weakly(axis, parameter):
    two = {"depth": {"depths": (14, 50)}, "width": {"widths": (0.25, 1.0)}}[axis]
    result = fit(read(planted(configurations=12, seed=1, **two)))
    (note,) = noted(result, "weak", parameter)
    assert f"rests on two {axis}s only" in note.text
    three = fit(read(planted(configurations=40, seed=1)))
    assert not noted(three, "weak", parameter)


def test_an_exponent_that_noise_hides_is_not_determined():
    frame = planted(configurations=4, widths=(1.0, 1.05), depths=(20,), noise=0.1, seed=3)
    result = fit(read(frame))
    (note,) = noted(result, "undetermined", "psi")
    assert "train more widths" in note.text
    low, high = result.interval("psi")
    assert high - low > 1.5


def cut_at(frame, error):
    """The table without larger errors, unpruned networks apart."""
    return frame[(frame["error"] < error) | (frame["level"] == 0)]


NARROW = {"widths": (0.125, 0.25, 0.5), "num_examples": (50_000, 25_000), "seed": 1}


def test_without_a_chance_error_curves_must_flatten():
    frame = planted(configurations=10, **NARROW)
    whole, cut = (measured(read(f)).points for f in (frame, cut_at(frame, 0.6)))
    assert plateau_reached(whole, None)
    assert not plateau_reached(cut, None)
    result = fit(read(cut_at(frame, 0.6)))
    assert "high_error" in result.undetermined
    low, high = result.interval("high_error")
    assert low < TRUTH["high_error"] < high
    assert "--high-error chance" not in noted(result, "undetermined", "high_error")[0].text


def test_an_open_high_error_allows_for_noise_in_the_largest_error():
    """Curves that end just short of their plateau: the largest of their noisy errors lies above it."""
    above = 0
    for seed in range(12):
        frame = planted(configurations=5, seed=seed)
        result = fit(read(frame))
        low, high = result.interval("high_error")
        above += frame["error"].max() > TRUTH["high_error"]
        assert low < TRUTH["high_error"] < high
    assert above >= 3


def test_with_a_chance_error_rows_must_come_near_it():
    frame = planted(configurations=10, **NARROW)
    assert plateau_reached(measured(read(frame)).points, 0.9)
    assert not plateau_reached(measured(read(cut_at(frame, 0.75))).points, 0.9)


def test_high_error_at_chance_needs_a_chance():
    table = read(planted(configurations=5))
    with pytest.raises(PrunecastError, match=r"chance error of dataset .* is not known; give a number"):
        fit(table, high_error="chance")


def test_parameters_at_a_bound_are_named():
    """Errors that jump at one density pull γ to its upper bound."""
    frame = planted(configurations=4, depths=(20,), num_examples=(50_000,), noise=0.0)
    jump = np.where(frame["density"] > 0.1, 0.1, 0.8)
    result = fit(read(frame.assign(error=jump)))
    (note,) = noted(result, "bound", "gamma")
    assert "γ ends at the bound of its search, 20" in note.text


def test_flat_profiles_are_named_once_and_only_where_nothing_worse_is_said():
    """Two noisy curves leave γ, p′ and ψ so loose that half or double fits as well."""
    grid = {"depths": (20,), "widths": (1.0, 0.25), "num_examples": (50000,)}
    loose = fit(read(planted(configurations=2, seed=1, noise=0.2, **grid), chance=0.9))
    (note,) = noted(loose, "flat", "p")
    assert "p′ has a flat profile" in note.text
    for seed in range(4):
        result = fit(read(planted(configurations=2, seed=seed, noise=0.3, **grid), chance=0.9))
        flat = [note.parameter for note in result.notes if note.kind == "flat"]
        assert len(flat) == len(set(flat))
        assert not set(flat) & set(result.undetermined)


def test_a_configuration_the_law_misses_is_listed_first():
    frame = planted(configurations=20, seed=7)
    first = frame[["depth", "width", "num_examples"]].iloc[0]
    odd = (frame[list(first.index)] == first).all(axis=1)
    # Its pruned errors are what the law says of a network pruned three levels further.
    frame.loc[odd & (frame["level"] > 0), "error"] = law_error(
        frame[odd & (frame["level"] > 0)].assign(density=lambda f: f["density"] * 0.8**3)
    )
    misses = noted(fit(read(frame)), "miss")
    place = f"depth {first['depth']:g}, width {first['width']:g}, {first['num_examples']:,.0f} examples"
    assert place in misses[0].text


def test_plain_noise_is_not_called_a_dip():
    for seed in range(3):
        assert not noted(fit(read(planted(configurations=30, seed=seed))), "dip")


def test_a_planted_dip_is_called_one():
    frame = planted(configurations=20, seed=3)
    dip = 1 - 0.15 * (1 - frame["density"] ** 2) * (frame["density"] > 0.1)
    (note,) = noted(fit(read(frame.assign(error=frame["error"] * dip))), "dip")
    assert "falls below its unpruned value" in note.text


def test_rows_at_chance_are_counted(shipped):
    result = fit(shipped)
    (note,) = noted(result, "chance")
    assert note.text == "2 rows no better than chance (0.9) are left out of the fit."


@pytest.mark.parametrize(
    ("configurations", "words"),
    [(2, "rest on the scatter of rows alone"), (10, "under 30"), (31, None)],
)
def test_thin_data_are_named(configurations, words):
    result = fit(read(planted(configurations=configurations, replicates=2, seed=1)))
    few = [note.text for note in noted(result, "few")]
    assert len(few) == (words is not None)
    assert words is None or words in few[0]
