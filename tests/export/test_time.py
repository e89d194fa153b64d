"""`prunecast time`: latencies of a made network and of a table's networks."""

import csv
import json
import signal
import time
from pathlib import Path

import pandas as pd
import pytest
import torch
from click.testing import CliRunner
from made_networks import Made
from torch import nn

import prunecast
from prunecast.choice import size_grid
from prunecast.cli import cli
from prunecast.export import Timing, time_network, timing, untrained
from prunecast.sweep import LeftOut, read_plan, run_plan

PLAN = """
family = "digits_cnn"
dataset = "digits"
recipe = {preset = "digits", epochs = 1, drops = [], rewind = 0}
num_examples = 100
level_cap = 2
depth = 3
width = [1, 2]
method = ["imp", "imp-channels"]
"""


def run(*arguments: str) -> str:
    done = CliRunner().invoke(cli, ["time", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


class Slow(nn.Module):
    """Takes some milliseconds per image."""

    def forward(self, x):
        end = time.thread_time() + 0.002 * len(x)
        while time.thread_time() < end:
            pass
        return x.flatten(1)[:, :2]


def test_a_latency_is_the_median_of_many_calls():
    one, three = time_network(Slow(), (1, 2, 2), Timing(batches=(1, 3), seconds=0.05))
    assert (one.batch, three.batch, one.runtime) == (1, 3, "torch")
    assert 2 <= one.low <= one.milliseconds <= one.high
    assert one.milliseconds < three.milliseconds
    assert min(one.calls, three.calls) >= 10


def test_one_thread_is_timed_without_the_time_that_other_programs_take():
    class Waiting(nn.Module):
        def forward(self, x):
            time.sleep(0.01)
            return x.flatten(1)[:, :2]

    (own,) = time_network(Waiting(), (1, 2, 2), Timing(seconds=0.01))
    assert own.milliseconds < 5
    (both,) = time_network(Waiting(), (1, 2, 2), Timing(seconds=0.01, threads=2))
    assert both.milliseconds >= 10


def test_a_call_on_a_device_ends_when_the_device_has_finished():
    """As on a GPU, whose calls return at once: here the CPU is the device, and finishing is counted."""
    finished = []
    call = timing._torch(nn.Flatten(), "cpu", lambda: finished.append(True))(torch.zeros(1, 1, 2, 2))
    for _ in range(3):
        call()
    assert len(finished) == 3


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_machine_without_a_gpu_says_so(made: Made):
    done = CliRunner().invoke(cli, ["time", str(made.folder), "--runtime", "cuda"])
    assert "--runtime cuda needs a GPU, and torch finds none on this machine" in str(done.exception)
    assert timing.missing_runtime("cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_networks_are_timed_on_a_gpu(made: Made):
    found = json.loads(run(str(made.folder), "--runtime", "cuda", "--seconds", "0.05", "--json"))
    assert (found["made"][0]["runtime"], found["made"][0]["milliseconds"] > 0) == ("cuda", True)


def test_threads_are_put_back():
    before = torch.get_num_threads()
    time_network(Slow(), (1, 2, 2), Timing(threads=2, seconds=0.001))
    assert torch.get_num_threads() == before


def test_a_made_network_is_compared_with_the_unpruned_one(made: Made):
    text = run(str(made.folder), "--seconds", "0.01", "--batch", "1", "--batch", "8")
    assert "Times faster" in text
    assert text.count("unpruned") == 2
    found = json.loads(run(str(made.folder), "--seconds", "0.01", "--json"))
    assert [own["batch"] for own in found["made"]] == [1]
    assert found["unpruned"][0]["milliseconds"] > 0


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("timed")
    (folder / "plan.toml").write_text(PLAN, encoding="utf-8")
    for _ in run_plan(read_plan(folder / "plan.toml"), folder / "store"):
        pass
    return folder


def test_the_networks_of_a_table_get_latencies(timed: Path):
    where = (str(timed / "plan.toml"), "--store", str(timed / "store"), "--seconds", "0.001")
    text = run(*where, "--batch", "1", "--batch", "4", "-o", str(timed / "timed.csv"))
    assert (
        "12 rows with the column latency_ms that `choose` reads; it also has latency_ms_torch_4."
        in " ".join(text.split())
    )
    with (timed / "timed.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 12
    assert all(
        0 < float(row["latency_low_ms"]) <= float(row["latency_ms"]) <= float(row["latency_high_ms"])
        for row in rows
    )
    assert all(float(row["latency_ms_torch_4"]) > 0 for row in rows)
    whole = {row["latency_ms"] for row in rows if row["method"] == "imp" and row["width"] == "1"}
    small = {row["latency_ms"] for row in rows if row["method"] == "imp-channels" and row["width"] == "1"}
    assert (len(whole), len(small)) == (1, 3)  # zeros are multiplied, so all levels are one network
    assert whole < small


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--seconds", "0"), "seconds is 0; give a positive number"),
        (("--store", "nowhere"), "nowhere has no finished level of"),
    ],
)
def test_mistakes_are_one_sentence(timed: Path, arguments, problem):
    done = CliRunner().invoke(cli, ["time", str(timed / "plan.toml"), *arguments])
    assert done.exit_code
    assert problem in str(done.exception)


def test_a_folder_that_make_did_not_write_is_refused(tmp_path: Path):
    done = CliRunner().invoke(cli, ["time", str(tmp_path)])
    assert "give the folder that `prunecast make -o` wrote" in str(done.exception)


def test_options_of_a_plan_are_refused_for_a_folder(tmp_path: Path):
    done = CliRunner().invoke(cli, ["time", str(tmp_path), "--store", "store", "-o", "table.csv"])
    assert "not a plan; leave out --output, --store" in str(done.exception)


@pytest.mark.slow
@pytest.mark.usefixtures("with_onnx")
def test_onnx_runtime_can_be_timed(timed: Path):
    found = json.loads(
        run(
            str(timed / "plan.toml"),
            "--store",
            str(timed / "store"),
            "--seconds",
            "0.001",
            "--runtime",
            "onnx",
            "--json",
        )
    )
    assert all(row["latency_ms"] > 0 for row in found["rows"])


def timings(path: Path) -> dict[tuple[str, str], tuple[str, str]]:
    with path.open(encoding="utf-8") as file:
        return {
            (row["spec"], row["level"]): (row["latency_ms"], row["latency_ms_torch_4"])
            for row in csv.DictReader(file)
        }


def test_a_run_that_is_stopped_goes_on(timed: Path, tmp_path: Path):
    output = tmp_path / "timed.csv"
    line = ["time", str(timed / "plan.toml"), "--store", str(timed / "store"), "-o", str(output)]
    line += ["--batch", "1", "--batch", "4"]

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 3)
    try:
        stopped = CliRunner().invoke(cli, [*line, "--seconds", "0.8"])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert stopped.exit_code != 0
    some = timings(output)
    assert 0 < len(some) < 12
    run(*line[1:], "--seconds", "0.001")
    everything = timings(output)
    assert len(everything) == 12
    assert some.items() <= everything.items()
    run(*line[1:], "--seconds", "0.001")
    assert timings(output) != everything  # of a whole table, every network is timed again


def test_another_file_is_replaced(timed: Path, tmp_path: Path):
    output = tmp_path / "other.csv"
    output.write_bytes(b"\xff\x00spec,level\n")
    run(str(timed / "plan.toml"), "--store", str(timed / "store"), "-o", str(output), "--seconds", "0.001")
    assert len(output.read_text().splitlines()) == 13


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    folder = tmp_path_factory.mktemp("three")
    text = PLAN.replace("width = [1, 2]", "width = [0.5, 1, 2]").replace("level_cap = 2", "level_cap = 1")
    (folder / "plan.toml").write_text(text, encoding="utf-8")
    for _ in run_plan(read_plan(folder / "plan.toml"), folder / "store"):
        pass
    return (str(folder / "plan.toml"), "--store", str(folder / "store"), "--seconds", "0.001")


def test_untrained_networks_of_other_sizes_are_timed(three: tuple[str, ...], tmp_path: Path):
    text = run(*three, "-o", str(tmp_path / "timed.csv"), "--rounds", "2")
    assert "untrained networks, from which `choose` predicts the latency of sizes between" in " ".join(
        text.split()
    )
    found = pd.read_csv(tmp_path / "timed.untrained.csv")
    sizes = set(zip(found.depth, found.width, strict=True))
    assert sizes == set(size_grid([3], [0.5, 1, 2], "digits_cnn", "within"))
    assert found.groupby("width").size()[2] == untrained.DENSITIES
    assert found.groupby("width").size().min() > 1  # of small networks several densities are the same
    assert (found.timed_with == "torch-1-1").all()
    unpruned = found[found.density == 1].set_index("width")
    trained = pd.read_csv(tmp_path / "timed.csv")
    for row in trained[trained.density == 1].itertuples():
        assert unpruned.multiply_adds[row.width] == row.multiply_adds
        assert unpruned.bytes[row.width] == row.bytes
    pruned = found[found.density < 1]
    assert (pruned.multiply_adds.to_numpy() < unpruned.multiply_adds[pruned.width].to_numpy()).all()
    lowest = found.groupby("width").density.min()
    channels = trained[trained.method == "imp-channels"]
    assert lowest.to_numpy() == pytest.approx(channels.density.min(), rel=0.5)
    (path, where) = (tmp_path / "timed.csv", {"method": "imp-channels"})
    assert "latency_ms_torch_1" in prunecast.read(path, where=where).untrained


def test_only_trained_networks_are_timed_where_asked_for(three: tuple[str, ...], tmp_path: Path):
    (tmp_path / "timed.untrained.csv").write_text("of another plan")
    run(*three, "-o", str(tmp_path / "timed.csv"), "--sizes", "measured")
    found = pd.read_csv(tmp_path / "timed.untrained.csv")
    assert set(found.width) == {0.5, 1, 2}  # as if they were untrained


def test_a_run_that_is_stopped_among_untrained_networks_goes_on(three: tuple[str, ...], tmp_path: Path):
    run(*three, "-o", str(tmp_path / "timed.csv"))
    (tmp_path / "timed.csv").unlink()
    path = tmp_path / "timed.untrained.csv"
    some = path.read_text().splitlines()[:8]
    path.write_text("\n".join(some) + "\n")
    run(*three, "-o", str(tmp_path / "timed.csv"))
    again = path.read_text().splitlines()
    assert again[:8] == some
    assert len(again) > len(some)
    run(*three, "-o", str(tmp_path / "timed.csv"))
    assert path.read_text().splitlines()[:8] != some  # of a whole table, every network is timed again


def test_networks_that_the_plan_leaves_out_do_not_count(tmp_path: Path):
    text = PLAN.replace("[1, 2]", "[0.5, 1, 2, 4]").replace("level_cap = 2", "level_cap = 0")
    plan, output = tmp_path / "plan.toml", tmp_path / "timed.csv"
    plan.write_text(text.replace(', "imp-channels"', "") + "[select]\nnoise = 0.0\n", encoding="utf-8")
    events = list(run_plan(read_plan(plan), tmp_path / "store"))
    left_out = sum(isinstance(event, LeftOut) for event in events)
    assert left_out
    line = (str(plan), "--store", str(tmp_path / "store"), "-o", str(output), "--seconds", "0.001")
    run(*line, "--batch", "1", "--batch", "4")
    everything = timings(output)
    assert len(everything) == 4 - left_out
    run(*line, "--batch", "1", "--batch", "4")
    assert timings(output) != everything
