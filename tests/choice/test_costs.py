"""Answers in bytes, milliseconds and multiply-adds that the table has."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from prunecast import laws, table
from prunecast.choice import choose
from prunecast.cli import cli
from prunecast.errors import PrunecastError

WIDTHS = (0.25, 0.5, 1.0)


def rows(*, channels=True, latency=True, seed=0):
    """Planted curves of three widths; whole channels make networks faster, single zeros do not."""
    rng, found = np.random.default_rng(seed), []
    for width in WIDTHS:
        unpruned = 0.08 * width**-0.3
        for level in range(14):
            density = 0.8**level
            pruned = (density * width**1.2 + 0.02) / (density * width**1.2)
            found.append(
                {
                    **{
                        "depth": 20,
                        "width": width,
                        "num_examples": 50000,
                        "level": level,
                        "density": density,
                    },
                    "error": min(0.85, unpruned * pruned**0.8 * np.exp(0.003 * rng.standard_normal())),
                    "weights": round(270000 * width**2),
                    "bytes": 4 * 280000 * width**2 * (density if channels else 1),
                    "multiply_adds": 40e6 * width**2 * (density**0.9 if channels else 1),
                    "latency_ms": 1 + 8 * width * (density**0.5 if channels else 1),
                }
            )
    frame = pd.DataFrame(found)
    return frame if latency else frame.drop(columns="latency_ms")


@pytest.fixture(scope="module")
def fitted():
    return laws.fit(table.as_table(rows()), law="eq2")


def latency(width, density):
    return 1 + 8 * width * density**0.5


def test_the_fastest_network_that_meets_the_target(fitted):
    found = choose(fitted, target_error=0.12, minimise="latency")
    best = found.answer
    assert found.met
    assert best.width in WIDTHS
    assert best.latency_ms == pytest.approx(latency(best.width, best.density), rel=0.01)
    others = [choose(fitted, target_error=0.12, minimise="latency", width=width) for width in WIDTHS]
    assert best.latency_ms == min(other.answer.latency_ms for other in others if other.met)


@pytest.mark.parametrize("budget", [2.0, 3.5, 9.0])
def test_a_budget_of_milliseconds_is_kept(fitted, budget):
    found = choose(fitted, max_latency=budget)
    assert found.answer.latency_ms <= budget * (1 + 1e-9)
    wider = choose(fitted, max_latency=2 * budget)
    assert wider.answer.expected_error <= found.answer.expected_error + 1e-9


def test_a_target_and_a_budget_of_latency(fitted):
    assert choose(fitted, target_error=0.12, max_latency=9.0).met
    found = choose(fitted, target_error=0.12, max_latency=1.5)
    assert not found.met
    assert found.answer.latency_ms <= 1.5


def test_too_small_a_budget_says_what_the_fastest_takes(fitted):
    with pytest.raises(PrunecastError, match=r"fits the budget: the fastest takes 1\.\d+ ms"):
        choose(fitted, max_latency=0.5)


@pytest.mark.parametrize(("measure", "column"), [("bytes", "bytes"), ("multiply-adds", "multiply_adds")])
def test_bytes_and_multiply_adds_are_the_tables_own(fitted, measure, column):
    best = choose(fitted, target_error=0.12, minimise=measure).answer
    exponent, whole = (1, 4 * 280000) if measure == "bytes" else (0.9, 40e6)
    assert getattr(best, column) == pytest.approx(whole * best.width**2 * best.density**exponent, rel=0.01)


def test_parameters_is_another_name_of_stored(fitted):
    one, other = (choose(fitted, target_error=0.12, minimise=name) for name in ("stored", "parameters"))
    assert one == other


def test_a_table_without_the_column_is_refused():
    fitted = laws.fit(table.as_table(rows(latency=False)), law="eq2")
    for question in ({"minimise": "latency"}, {"max_latency": 5.0}):
        with pytest.raises(PrunecastError, match=r"no column latency_ms .* `prunecast time PLAN -o TABLE`"):
            choose(fitted, target_error=0.12, **question)
    assert choose(fitted, target_error=0.12).answer.latency_ms is None


def test_single_weights_save_no_time():
    fitted = laws.fit(table.as_table(rows(channels=False)), law="eq2")
    found = choose(fitted, target_error=0.12, minimise="latency")
    assert found.answer.latency_ms == pytest.approx(latency(found.answer.width, 1.0))
    (own,) = (finding for finding in found.findings if finding.kind == "cost_from_table")
    assert own.flat


def test_a_saved_law_answers_the_same(fitted, tmp_path):
    path = tmp_path / "law.json"
    fitted.save(path)
    again = laws.load(path)
    assert again.configurations == fitted.configurations
    question = {"target_error": 0.12, "minimise": "latency"}
    one, other = (choose(own, **question).answer for own in (again, fitted))
    assert (one.width, one.latency_ms) == (other.width, pytest.approx(other.latency_ms))


def test_the_command_takes_times(tmp_path):
    rows().to_csv(tmp_path / "timed.csv", index=False)
    line = ["choose", str(tmp_path / "timed.csv"), "--law", "eq2", "--json", "--max-latency"]
    found = [
        json.loads(CliRunner().invoke(cli, [*line, given], catch_exceptions=False).output)
        for given in ("4ms", "0.004s", "4000us", "4")
    ]
    assert all(own == found[0] for own in found)
    assert found[0]["latency_ms"] <= 4
    text = CliRunner().invoke(cli, [*line[:4], "--minimise", "latency", "--target-error", "0.12"]).output
    assert "Latency" in text
    reason = "Only timed sizes were considered, because predictions for others are poor. Predictions for the 3 timed"
    assert reason in " ".join(text.split())
    assert "zeros are skipped" not in text
    bad = CliRunner().invoke(cli, [*line, "soon"])
    assert "'soon' is not a time such as 5ms" in bad.output


def test_what_draws_lines_over_density_refuses_costs(tmp_path):
    rows().to_csv(tmp_path / "timed.csv", index=False)
    line = ["choose", str(tmp_path / "timed.csv"), "--law", "eq2", "--frontier", "--minimise", "latency"]
    done = CliRunner().invoke(cli, line)
    assert "only `choose` without --frontier minimises it" in str(done.exception)
