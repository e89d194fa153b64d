"""A criterion, a structure and a family of one's own, each in one file, run by the documented plans."""

import csv
import os
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from documented_plans import documented_plan

from prunecast.pruning import chain_folders, open_chain, read_tensors
from prunecast.sweep import loader, parse_plan, read_plan, run_plan
from prunecast.sweep import rows as table_rows

FOLDER = Path(__file__).parent
COMMANDS = {
    "run": [str(Path(sys.executable).with_name("prunecast")), "run"],
    "sweep": [sys.executable, "-m", "prunecast.sweep"],
}


def run(folder, command, plan, **environment):
    (folder / "plan.toml").write_text(plan, encoding="utf-8")
    done = subprocess.run(
        [*COMMANDS[command], "plan.toml", "--store", "store", "--jobs", "2", "-o", "table.csv"],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with (folder / "table.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_the_criterion_prunes_what_grew_least(command, tmp_path, monkeypatch):
    shutil.copy(FOLDER / "magnitude_increase.py", tmp_path)
    rows = run(tmp_path, command, "keep_weights = true\n" + documented_plan("magnitude_increase"))
    assert [(row["width"], row["level"]) for row in rows] == [
        (width, str(level)) for width in ("0.5", "1") for level in range(4)
    ]
    assert {row["method"] for row in rows} == {"magnitude-increase"}
    assert float(rows[-1]["error"]) < 0.3
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    planned = {chain.spec.digest: chain for chain in read_plan("plan.toml").chains}
    folders = chain_folders(tmp_path / "store")
    assert {folder.path.name for folder in folders} == set(planned)
    for folder in folders:
        assert_grown(planned[folder.path.name], folder, tmp_path / "store")


def assert_grown(chain, folder, store):
    """The first pruning removes the fifth of the weights that grew least, without the package's own ranking."""
    opened = open_chain(chain.spec, store, loader(chain, torch.device("cpu"), {})())
    trained = read_tensors(folder.weights(0))[0]
    masks = folder.masks(1)
    growth = [trained[name].abs() - opened.untrained.get_parameter(name).detach().abs() for name in masks]
    flat, kept = (torch.cat([own.flatten() for own in many]) for many in (growth, masks.values()))
    assert flat[~kept].max() <= flat[kept].min()
    assert int((~kept).sum()) == -(-len(kept) // 5)
    magnitudes = torch.cat([trained[name].abs().flatten() for name in masks])
    assert magnitudes[~kept].max() > magnitudes[kept].min()


@pytest.mark.slow
def test_a_registered_name_prunes_the_same_under_another_digest(tmp_path):
    shutil.copy(FOLDER / "magnitude_increase.py", tmp_path)
    plan = documented_plan("magnitude_increase").replace("[0.5, 1]", "0.5").replace("600", "100")
    imported = run(tmp_path, "sweep", plan)
    registered = run(
        tmp_path,
        "sweep",
        plan.replace("magnitude_increase:score", "magnitude-increase"),
        PRUNECAST_PLUGINS="magnitude_increase",
    )
    assert [row["error"] for row in registered] == [row["error"] for row in imported]
    assert {row["spec"] for row in registered}.isdisjoint({row["spec"] for row in imported})


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_the_family_is_trained_and_pruned(command, tmp_path):
    shutil.copy(FOLDER / "mlp_family.py", tmp_path)
    rows = run(tmp_path, command, documented_plan("mlp_family"))
    assert {row["family"] for row in rows} == {"mlp_family:mlp"}
    weights = {row["width"]: int(row["weights"]) for row in rows}
    assert weights == {"0.5": 64 * 32 + 32 * 32 + 32 * 10, "1": 64 * 64 + 64 * 64 + 64 * 10}
    assert all(float(row["error"]) < 0.3 for row in rows)
    assert all(row["effective_density"] for row in rows)


def test_the_loss_the_optimizer_and_the_schedule_train(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    plan = parse_plan(documented_plan("own_recipe"), name="own")
    list(run_plan(plan, tmp_path))
    rows = table_rows(plan, tmp_path)
    assert {row["recipe"] for row in rows} == {"focal-lion"}
    assert [row["level"] for row in rows] == [0, 1]
    assert all(row["error"] < 0.2 for row in rows)


def test_the_rows_go_as_a_whole_and_half_of_them_first(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    plan = parse_plan(documented_plan("whole_rows"), name="own")
    list(run_plan(plan, tmp_path))
    (folder,) = chain_folders(tmp_path)
    shares = []
    for level in (1, 2, 3):
        rows = [mask.flatten(1) for mask in folder.masks(level).values()]
        assert all(torch.equal(own.any(1), own.all(1)) for own in rows)
        shares.append([int(own.any(1).sum()) / len(own) for own in rows])
    assert shares[0] == [0.5] * len(shares[0])
    assert all(
        later < earlier for one, other in pairwise(shares) for earlier, later in zip(one, other, strict=True)
    )
