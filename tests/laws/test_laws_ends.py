"""Curves that end at chance or never rise, and searches that end at a bound: what a fit says of them."""

import numpy as np
import pandas as pd
import pytest
from planted import planted

from prunecast.choice import choose
from prunecast.errors import PrunecastError
from prunecast.laws import fit
from prunecast.table import read

ONE = {"configurations": 1, "depths": (20,), "widths": (0.5,), "num_examples": (50_000,)}


def chain(errors: list[float], **columns: float) -> pd.DataFrame:
    """One curve of levels of 20%."""
    return pd.DataFrame({"density": 0.8 ** np.arange(len(errors)), "error": errors, **columns})


COLLAPSE = [0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.12, 0.15, 0.3, 0.7, 0.92, 0.9]
"""A curve that passes from its low plateau to chance in three levels."""


def noted(result, parameter):
    return next(n for n in result.notes if n.kind == "undetermined" and n.parameter == parameter)


def test_no_more_levels_are_asked_of_a_curve_at_chance():
    result = fit(read(chain(COLLAPSE), chance=0.9))
    assert result.at_chance == 2
    for parameter, place in (("high_error", "near the high plateau"), ("gamma", "on the rise")):
        note = noted(result, parameter)
        assert f"{place}, though the curve reaches chance" in note.text
        assert "prune in smaller steps (a smaller `fraction`)" in note.text
        assert note.more_levels is None
    assert not any("more level" in note.text for note in result.notes)


def test_more_levels_are_asked_of_the_curves_that_can_have_them():
    early = chain(COLLAPSE[:8], width=2)
    result = fit(read(pd.concat([chain(COLLAPSE, width=1), early]), chance=0.9))
    note = noted(result, "high_error")
    assert "though 1 of 2 curves reaches chance" in note.text
    assert f"prune the others {note.more_levels} more level" in note.text
    assert "or prune in smaller steps" in note.text


def test_where_the_plateaus_are_seen_and_the_rise_is_not_steps_should_be_smaller():
    """Pruning further adds nothing between the plateaus."""
    result = fit(read("svhn-resnet"))
    assert "high_error" not in result.undetermined
    assert "prune in smaller steps" in noted(result, "gamma").text


def steep() -> pd.DataFrame:
    """Noisy errors that rise more steeply than the search for γ allows, and end before any plateau."""
    frame = planted(**ONE, noise=0.0)[:16]
    noise = np.random.default_rng(1).normal(0, 0.1, len(frame))
    rise = 0.1 * np.where(np.arange(len(frame)) < 11, 1, 2.0 ** (np.arange(len(frame)) - 11))
    return frame.assign(error=np.minimum(rise, 0.7) * np.exp(noise))


@pytest.mark.parametrize("law", ["eq2", "dip"])
def test_a_parameter_at_its_bound_is_not_determined_and_has_a_width(law):
    result = fit(read(steep(), chance=0.9), law=law)
    assert result.parameters["gamma"] == pytest.approx(20)
    assert "gamma" in result.undetermined
    low, high = result.interval("gamma")
    assert low < 15
    assert high == pytest.approx(20)


def test_a_bound_alone_makes_a_parameter_undetermined():
    """Without noise the profile is sharp, and nothing but the bound tells."""
    frame = planted(configurations=4, depths=(20,), num_examples=(50_000,), noise=0.0)
    result = fit(read(frame.assign(error=np.where(frame["density"] > 0.1, 0.1, 0.8))))
    assert "γ is not determined" in " ".join(note.text for note in result.notes if note.parameter == "gamma")
    assert "gamma" in result.undetermined


def test_no_dip_is_something_known():
    """A dip of the least depth is the answer that there is none, so it does not count as undetermined."""
    result = fit(read(planted(configurations=20, seed=2, noise=0.0), chance=0.9), law="dip")
    assert result.parameters["dip"] == pytest.approx(1e-6, rel=0.1)
    assert any(note.kind == "bound" and note.parameter == "dip" for note in result.notes)
    assert "dip" not in result.undetermined


@pytest.mark.parametrize("name", ["cifar10-vgg", "svhn-vgg", "svhn-densenet", "cifar10-resnet20-24ep-fleet"])
@pytest.mark.parametrize("law", ["eq2", "dip"])
def test_what_is_not_determined_may_be_what_it_is_estimated_to_be(name, law):
    result = fit(read(name), law=law)
    assert result.undetermined
    for parameter in result.undetermined:
        low, high = result.interval(parameter)
        assert low <= result.parameters[parameter] <= high
        assert not any(note.kind == "outside" and note.parameter == parameter for note in result.notes)


FLAT = {
    "falling": [0.4, 0.36, 0.33, 0.31, 0.29, 0.29, 0.3, 0.33, 0.36],
    "constant": [0.1] * 9,
    "noisy": [0.1, 0.103, 0.098, 0.1, 0.101, 0.104, 0.097, 0.1, 0.102],
}


@pytest.mark.parametrize("shape", FLAT)
def test_curves_that_never_rise_tell_no_law(shape):
    table = read(chain(FLAT[shape]), chance=0.9)
    result = fit(table)
    first = result.notes[0]
    assert first.text.startswith("No curve rises above its unpruned error")
    assert f"prune {first.more_levels} more levels" in first.text
    assert result.undetermined == ("high_error", "gamma", "p")
    assert result.regions["low plateau"].rows == result.rows
    with pytest.raises(PrunecastError, match=r"no curve of DataFrame rises .* prune further"):
        choose(table, target_error=0.05)


def test_a_held_plateau_stays_known_where_no_curve_rises():
    result = fit(read(chain(FLAT["noisy"]), chance=0.9), high_error="chance")
    assert result.undetermined == ("gamma", "p")


def test_exponents_are_not_determined_where_no_curve_rises():
    frame = pd.concat([chain([error] * 9, width=w) for w, error in ((1, 0.1), (2, 0.08), (4, 0.07))])
    assert fit(read(frame, chance=0.9)).undetermined == ("high_error", "gamma", "p", "psi")


def test_a_fall_is_named_where_no_curve_rises_and_the_law_that_follows_it_sees_a_rise():
    table = read(chain(FLAT["falling"]), chance=0.9)
    assert any("The law `dip` follows it" in note.text for note in fit(table).notes)
    assert fit(table, law="dip").rises


def test_a_flat_curve_that_falls_to_chance_at_once_needs_smaller_steps():
    (note, *_) = fit(read(chain([0.1] * 8 + [0.91]), chance=0.9)).notes
    assert "before it reaches chance" in note.text
    assert "prune in smaller steps" in note.text
    assert note.more_levels is None


def test_a_table_whose_plateau_is_guessed_too_low_is_not_told_to_have_more_examples():
    """Noise above the edge of the low plateau is not yet a rise."""
    table = read(chain([0.1, 0.09, 0.112, 0.08, 0.09, 0.085, 0.08, 0.09, 0.08]), chance=0.9)
    assert fit(table).rises
    with pytest.raises(PrunecastError, match=r"no law of pruning can be told; prune further"):
        choose(table, target_error=0.09)
