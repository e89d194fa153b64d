"""How far a law can be trusted, in one word with the numbers behind it, wherever its results are shown."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from planted import planted

from prunecast import choose, fit, read
from prunecast.choice import DEFAULT_CONFIDENCE
from prunecast.cli import cli
from prunecast.laws import Fit, verdict
from prunecast.report import page
from prunecast.table import CONFIGURATION, Table
from prunecast.wording import advice, verdict_numbers, verdict_sentence

GRID = {"widths": (0.25, 0.5, 1.0), "depths": (8, 20), "num_examples": (50_000, 12_500)}
SHOWN_LEVELS = 8


@cache
def table(misfit: float, last_level: int) -> Table:
    """Replicated curves of Eq. 2, each stretched along the density by a factor of its own, up to some level."""
    frame = planted(configurations=12, replicates=2, noise=0.01, seed=2, **GRID)
    own = frame.groupby(list(CONFIGURATION)).ngroup().to_numpy()
    factor = np.exp(misfit * np.random.default_rng(1).standard_normal(own.max() + 1))[own]
    pruned = frame["level"] > 0
    density = np.where(pruned, np.minimum(frame["density"] * factor, 0.999), 1.0)
    return read(frame.assign(density=density)[frame["level"] <= last_level].drop(columns="nonzero"))


@cache
def fitted(misfit: float, last_level: int) -> Fit:
    return fit(table(misfit, last_level), law="eq2")


CASES = {
    "good": (0.0, 31),
    "usable": (0.06, 31),
    "poor": (0.3, 31),
    "unusable": (0.0, SHOWN_LEVELS),
}


@pytest.mark.parametrize("trust", CASES)
def test_the_word_follows_from_what_the_law_misses_and_what_the_data_determine(trust: str) -> None:
    found = verdict(fitted(*CASES[trust]))
    assert found.trust == trust
    assert found.usable == (trust != "unusable")
    assert found.replicated
    assert found.left_out
    assert found.missed == pytest.approx(fitted(*CASES[trust]).held_out["eq2"])
    assert (found.determined == found.parameters) == (trust != "unusable")


@pytest.mark.parametrize("trust", CASES)
def test_every_fit_answer_and_page_says_it_on_one_line(trust: str, tmp_path: Path) -> None:
    law, path = fitted(*CASES[trust]), tmp_path / "runs.csv"
    table(*CASES[trust]).frame.drop(columns="unpruned_error").to_csv(path, index=False)
    said = verdict_sentence(verdict(law))
    assert said.startswith(f"Trust in this law here: {trust}; configurations left out are predicted within ")
    assert "noise alone causes" in said
    assert f"{verdict(law).parameters} parameters" in said
    for line in (["fit"], ["choose", "--target-error", "0.3"]):
        done = CliRunner().invoke(cli, [*line, str(path), "--law", "eq2"], catch_exceptions=False)
        assert said in " ".join(done.output.split())
        done = CliRunner().invoke(cli, [*line, str(path), "--law", "eq2", "--json"], catch_exceptions=False)
        assert json.loads(done.output)["verdict"]["trust"] == trust
    html = page(read(path), law="eq2", target_error=0.3, studies=False).html
    numbers = verdict_numbers(verdict(law))
    assert f"<dt>Trust in the law</dt><dd><strong>{trust}</strong> <span>{numbers}</span>" in html


def test_curves_that_end_before_the_high_plateau_are_enough() -> None:
    """Where the rise ends and how high is one unknown, which errors on the measured curves do not depend on."""
    law = fitted(0.0, 16)
    assert set(law.undetermined) == {"high_error", "p"}
    assert verdict(law).trust == "usable"
    assert verdict(law).determined == 3


def test_an_unusable_law_has_no_headline() -> None:
    """A density that was asked for is looked up in it all the same, and is called no answer."""
    law = fitted(*CASES["unusable"])
    asked = choose(law, density=0.01)
    assert not asked.trusted
    refused = "The law cannot be trusted here, so it gives no answer."
    assert advice(asked).startswith(f"{refused} It would pick depth 20, width 1, keeping 1%")
    named = choose(law, density=0.01, depth=20, width=1)
    assert advice(named).startswith(f"{refused} You asked about depth 20, width 1, keeping 1%")
    assert "By this law its error would be about" in str(asked.summary())
    assert "Only networks that were trained" not in str(asked.summary())
    chosen = choose(law, target_error=0.3)
    assert chosen.trusted
    assert chosen.answer.source == "measured"
    assert "Only networks that were trained are considered." in " ".join(str(chosen.summary()).split())
    assert choose(fitted(*CASES["poor"]), density=0.01).trusted


def test_four_of_five_new_runs_are_promised_unless_another_confidence_is_asked_for() -> None:
    law = fitted(*CASES["good"])
    assert DEFAULT_CONFIDENCE == 0.8
    asked = choose(law, target_error=0.3)
    assert asked.question.confidence == 0.8
    assert asked.answer == choose(law, target_error=0.3, confidence=0.8).answer
    assert asked.answer.probability >= 0.8
    assert asked.answer.density > choose(law, target_error=0.3, confidence=0.5).answer.density
