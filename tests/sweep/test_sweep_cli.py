import json
from dataclasses import replace

import pytest
from click.testing import CliRunner
from small import BRIEF, parsed, table

from prunecast.cli import cli
from prunecast.cli.progress import Clock, panel
from prunecast.pruning import chain_folder
from prunecast.spec import ErrorRise
from prunecast.sweep import LeftOut, chain_statuses, run_plan, shipped_plans
from prunecast.sweep.estimation import estimate
from prunecast.sweep.overview import overview
from prunecast.sweep.status import SweepProgress


@pytest.fixture
def plan_file(tmp_path):
    path = tmp_path / "brief.toml"
    path.write_text(BRIEF)
    return path


def invoke(*arguments):
    return CliRunner().invoke(cli, [*map(str, arguments)])


def test_plan_alone_lists_what_ships():
    output = invoke("plan").output
    for name, text in shipped_plans().items():
        (line,) = (line for line in output.splitlines() if line.split()[:1] == [name])
        assert text.splitlines()[0].removeprefix("# ") in line


@pytest.mark.parametrize("name", shipped_plans())
def test_every_shipped_plan_can_be_shown(name):
    result = invoke("plan", name, "--no-estimate")
    assert result.exit_code == 0, result.output
    assert f"{name}: " in result.output


def test_a_plan_is_counted_and_timed(plan_file):
    output = invoke("plan", plan_file, "--jobs", 2).output
    assert "brief: 4 chains, at most 12 training runs (level cap 2)" in output
    assert "    3     0.5          438        404        4                       12" in output
    assert "digits_cnn       3     0.5      32" in output
    flat = " ".join(output.split())
    assert (
        "on cpu: 4 chains, at most 12 training runs, 2 at a time. - Chains that end before their level cap"
        in flat
    )
    assert "timed" not in invoke("plan", plan_file, "--no-estimate").output


def test_parameters_are_those_of_the_trained_networks(tmp_path):
    plan = parsed(BRIEF)
    next(run_plan(plan, tmp_path))
    (row,) = table(plan, tmp_path)
    (network,) = overview(plan).networks
    assert (network.parameters, network.weights) == (row["parameters"], row["weights"])


def test_an_estimate_counts_every_step_and_image():
    plan = parsed(
        BRIEF.replace("[100, 200]", "[64, 64, 128]").replace("epochs = 2", "epochs = 4\nrewind = 1")
    )
    found = estimate(plan)
    (one,) = found.networks
    steps = {64: 8 + 2 * 6, 128: 16 + 2 * 12}
    looks = {64: 3 * (64 + 1197), 128: 3 * (128 + 1197)}
    expected = sum(
        2 * (steps[count] * one.step_seconds + looks[count] * one.image_seconds) for count in (64, 128)
    )
    assert found.alone.seconds == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            BRIEF.replace("depth = 3", "depth = 99"),
            "digits_cnn has no depth 99; its depths are 3, 4, 5, 6 ... 21",
        ),
        (BRIEF.replace("digits_cnn", "digit_cnn"), "unknown family 'digit_cnn'; the built-in families are"),
    ],
)
def test_a_plan_that_cannot_be_built_is_refused_when_shown(plan_file, text, words):
    plan_file.write_text(text)
    assert words in str(invoke("plan", plan_file, "--no-estimate").exception)


def test_status_tells_the_states_apart(tmp_path, plan_file):
    store = tmp_path / "store"
    plan = parsed(BRIEF)
    running = run_plan(plan, store)
    for _ in range(4):
        next(running)
    with chain_folder(store, plan.chains[2].spec).locked():
        output = invoke("status", plan_file, "--store", store).output
    assert "brief: 4 chains (1 ended, 2 running, 1 waiting), 4 training runs done" in output
    assert "1       ended: level cap       3     0.5        100           0        3" in output
    running.close()
    assert "1 begun" in invoke("status", plan_file, "--store", store).output


def test_status_says_why_nothing_has_begun(tmp_path, plan_file):
    store = tmp_path / "store"
    assert f"{store} has no training runs yet." in invoke("status", plan_file, "--store", store).output
    next(run_plan(parsed(BRIEF), store))
    plan_file.write_text(BRIEF.replace("epochs = ", "epochs = 1"))
    said = "chain of other plans, or of this plan before it was changed."
    assert said in invoke("status", plan_file, "--store", store).output


def test_a_run_tells_progress_and_what_is_left(tmp_path, plan_file):
    result = invoke("run", plan_file, "--store", tmp_path / "store", "--jobs", 1, "-o", tmp_path / "t.csv")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0].startswith("brief: 0 of 4 chains are finished, 0 levels are in ")
    assert " of about 12, about " in lines[1]
    assert lines[-2].startswith("4 chains finished; ")
    assert lines[-1] == f"12 rows in {tmp_path / 't.csv'}"
    again = invoke("run", plan_file, "--store", tmp_path / "store", "--jobs", 1)
    assert len(again.output.splitlines()) == 2


def test_a_table_that_cannot_be_written_is_refused_before_training(tmp_path, plan_file):
    out, store = tmp_path / "none" / "t.csv", tmp_path / "store"
    result = invoke("run", plan_file, "--store", store, "-o", out)
    assert f"there is no folder {out.parent}" in str(result.exception)
    assert not store.exists()


def test_a_store_without_results_has_no_table(tmp_path, plan_file):
    result = invoke("export", plan_file, "--store", tmp_path / "typo", "-o", tmp_path / "t.csv")
    assert "no training run of brief has finished in" in str(result.exception)
    assert not list(tmp_path.glob("t.csv"))


def test_the_progress_counts_to_the_end(tmp_path):
    plan = parsed(BRIEF)
    progress = SweepProgress(chain_statuses(plan, tmp_path))
    assert (progress.levels_done, progress.levels_expected, progress.seconds_left()) == (0, 12, None)
    left = []
    for event in run_plan(plan, tmp_path):
        progress.update(event)
        left.append(progress.seconds_left())
        assert "levels" in str(panel(progress, Clock(progress, 1)).renderables[-1].columns[1]._cells[0])
    assert (progress.levels_done, progress.levels_expected, progress.chains_done) == (12, 12, 4)
    assert left[-1] == 0
    assert min(left[:-1]) > 0
    assert SweepProgress(chain_statuses(plan, tmp_path)).levels_done == 12


def test_the_progress_towards_a_number_of_weights_does_not_count_to_the_cap(tmp_path):
    """If channels are removed, no chain comes near the level cap."""
    text = BRIEF.replace("level_cap = 2", 'level_cap = 40\nmethod = "imp-channels"')
    (chain, *_) = parsed(text).chains
    chain = replace(
        chain, rules=replace(chain.rules, final_nonzero=overview(parsed(text)).networks[0].weights // 10)
    )
    plan = replace(parsed(text), chains=(chain,))
    progress, expected = SweepProgress(chain_statuses(plan, tmp_path)), []
    for event in run_plan(plan, tmp_path):
        progress.update(event)
        expected.append(progress.levels_expected)
    assert 3 <= progress.levels_done <= 10
    assert all(abs(own - progress.levels_done) <= 3 for own in expected)
    assert expected[-1] == progress.levels_done


def test_the_progress_leaves_out_what_the_selection_does(tmp_path):
    plan = parsed(BRIEF)
    progress = SweepProgress(chain_statuses(plan, tmp_path))
    rise = ErrorRise(axis="width", best=1, best_error=0.1, size=2, error=0.2, tolerance=0.01)
    progress.update(LeftOut(number=2, chain=plan.chains[1], reason=rise))
    assert (progress.chains_done, progress.levels_expected) == (1, 9)


def test_a_run_stops_after_its_seconds_and_continues(tmp_path, plan_file):
    """The first run finishes little; that is in the table, and the next run trains the rest."""
    plan_file.write_text(BRIEF.replace("epochs = 2", "epochs = 40"))
    line = ["run", plan_file, "--store", tmp_path / "store", "--jobs", 1, "-o", tmp_path / "t.csv"]
    stopped = invoke(*line, "--seconds", 1.5)
    assert stopped.exit_code == 130
    assert "run the same command to continue" in stopped.output
    plan_file.write_text(BRIEF)
    finished = invoke(*line, "--seconds", 300, "--json")
    assert finished.exit_code == 0
    body = json.loads(finished.stdout.splitlines()[-1])
    assert (body["stopped"], body["chains_done"], body["levels_done"]) == (False, 4, 12)
    assert body["output"] == str(tmp_path / "t.csv")
    written = json.loads(
        invoke("export", *line[1:4], "-o", tmp_path / "u.csv", "--json").stdout.splitlines()[-1]
    )
    assert (written["rows"], written["damaged"]) == (12, [])
