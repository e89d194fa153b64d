import contextlib
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import rays
from click.testing import CliRunner
from fatal_family import KILLING
from found import check_search
from small import BRIEF, MANY, PRUNECAST, parsed, table

from prunecast.cli import cli
from prunecast.clusters.ray import RayBackend, is_death, ray_module, refusal
from prunecast.errors import PrunecastError, StoreError
from prunecast.sweep import Failed, Progress, Resources, chain_statuses, drive, run_plan
from prunecast.sweep.backend import with_resources
from prunecast.sweep.run import unfinished

rays.need_ray()

MOUNT = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec"]


@pytest.fixture(scope="module")
def nodes():
    with rays.two_nodes() as cluster:
        yield cluster
        ray_module().shutdown()


@pytest.fixture
def on_nodes(nodes):
    """The executor, with one connection to the cluster for all tests: each connection has its own workers."""
    ray = ray_module()
    if not ray.is_initialized():
        ray.init(nodes.address, log_to_driver=False, logging_level="ERROR")
    return partial(drive, backend=RayBackend)


@pytest.fixture
def disconnected():
    ray_module().shutdown()


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    store = tmp_path_factory.mktemp("unbroken")
    list(run_plan(parsed(BRIEF), store))
    return table(parsed(BRIEF), store)


@pytest.mark.slow
def test_a_cluster_gives_every_level_once_and_the_table_of_one_process(tmp_path, on_nodes, unbroken):
    plan = parsed(BRIEF)
    events = list(run_plan(plan, tmp_path, executor=on_nodes))
    assert all(isinstance(event, Progress) for event in events)
    told = sorted((event.number, event.record.level) for event in events)
    assert told == [(number, level) for number in range(1, 5) for level in range(3)]
    assert {event.ended for event in events if event.record.level == 2} == {"level cap"}
    assert table(plan, tmp_path) == unbroken
    assert list(run_plan(plan, tmp_path, executor=on_nodes)) == []
    raised = parsed(BRIEF.replace("level_cap = 2", "level_cap = 3"))
    assert [event.record.level for event in run_plan(raised, tmp_path, executor=on_nodes)] == [3] * 4


@pytest.mark.slow
def test_a_search_trains_on_the_nodes(tmp_path, on_nodes):
    check_search(tmp_path, on_nodes)


@pytest.mark.slow
def test_two_workers_share_a_gpu_and_the_chains(tmp_path, nodes, on_nodes):
    node = nodes.add(num_gpus=1)
    plan = with_resources(parsed(MANY), {"gpus": 0.5, "cpus": 0.5})
    for store in (tmp_path / "one", tmp_path / "two"):
        events = list(run_plan(plan, store, executor=partial(on_nodes, work=rays.note)))
        assert sorted({event.number for event in events}) == list(range(1, 25))
        assert len(events) == 24
        noted = [json.loads(path.read_text()) for path in store.glob("noted-*.json")]
        assert noted == [{"device": "cuda", "packed": True, "most_width": 9.0, "gpus": "0"}] * 2
    nodes.kill(node)


@pytest.mark.slow
def test_chains_for_which_there_is_no_node_keep_no_others_waiting(tmp_path, on_nodes, caplog):
    chains = parsed(MANY.replace("level_cap = 16", "level_cap = 0")).chains
    absent = [dataclasses.replace(chain, devices=2, resources=Resources(gpus=1)) for chain in chains[16:]]
    jobs = unfinished(enumerate([*chains[:16], *absent], 1), tmp_path)
    running = on_nodes(jobs, tmp_path, work=rays.end_all)
    told = [next(running).number for _ in chains[:16]]
    running.close()
    assert sorted(told) == list(range(1, 17))
    assert "has 2 CPUs, 2 GPUs; these chains wait until one joins" in caplog.text


@pytest.mark.slow
def test_no_more_workers_than_asked_for_at_once(tmp_path, on_nodes):
    plan = parsed(BRIEF.replace("level_cap = 2", "level_cap = 0"))
    one = partial(on_nodes, work=rays.alone, resources=Resources(at_once=1))
    assert [event.number for event in run_plan(plan, tmp_path / "one", executor=one)] == [3, 4, 1, 2]
    assert not (tmp_path / "one" / "not-alone").exists()
    several, count = partial(on_nodes, work=rays.alone), 0
    while not list(tmp_path.glob("several-*/not-alone")):  # two at a time meet sooner or later
        count += 1
        list(run_plan(plan, tmp_path / f"several-{count}", executor=several))


@pytest.mark.slow
def test_a_chain_that_kills_its_workers_fails_alone(tmp_path, on_nodes, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "deadly_family.py").write_text(KILLING)
    text = BRIEF.replace('"digits_cnn"', '"deadly_family:small"').replace("width = 0.5", "width = [1, 2]")
    plan = parsed(text.replace("[100, 200]", "100").replace("replicates = 2", "replicates = [0]"))
    events = list(run_plan(plan, tmp_path / "store", executor=on_nodes))
    assert [event.record.level for event in events if isinstance(event, Progress)] == [0, 1, 2]
    (failed,) = (event for event in events if isinstance(event, Failed))
    assert failed.number == 2
    assert failed.error.startswith("3 workers in a row died on this chain without a new level or checkpoint")
    statuses = chain_statuses(plan, tmp_path / "store")
    assert [own.state for own in statuses] == ["ended", "failed"]
    assert statuses[1].holder.tries == 3
    told = CliRunner().invoke(cli, ["status", _written(tmp_path, text), "--store", str(tmp_path / "store")])
    assert "restarted after a worker was killed or stopped: chain" in told.output


def _written(folder, text):
    (folder / "plan.toml").write_text(
        text.replace("[100, 200]", "100").replace("replicates = 2", "replicates = 1")
    )
    return str(folder / "plan.toml")


def mounts_are_permitted():
    trial = [*MOUNT, "mount -t tmpfs tmpfs /mnt"]
    return (
        bool(shutil.which("unshare"))
        and not subprocess.run(trial, capture_output=True, check=False).returncode
    )


@contextlib.contextmanager
def strange_node(nodes, before):
    """A node of three CPUs; its shell runs another command first."""
    import ray

    start = f"exec {Path(sys.executable).parent / 'ray'} start --address {nodes.address} --num-cpus 3 --block"
    node = subprocess.Popen(
        [*MOUNT, f"{before}; {start}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while not any(own["Resources"].get("CPU") == 3 for own in ray.nodes() if own["Alive"]):
            assert node.poll() is None
            time.sleep(0.1)
        yield
        node.send_signal(signal.SIGTERM)
        while any(own["Resources"].get("CPU") == 3 for own in ray.nodes() if own["Alive"]):
            time.sleep(0.1)
    finally:
        os.killpg(node.pid, signal.SIGTERM)
        node.wait()


BARE = """
import sys

class Bare:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "prunecast":
            raise ModuleNotFoundError("No module named 'prunecast'")

sys.meta_path.insert(0, Bare())
"""


@pytest.mark.slow
@pytest.mark.skipif(not mounts_are_permitted(), reason="mounting is not permitted here")
def test_nodes_that_do_not_see_the_store_or_lack_prunecast_are_named(tmp_path, nodes, on_nodes):
    store = tmp_path / "store"
    store.mkdir()
    (tmp_path / "sitecustomize.py").write_text(BARE)
    there = partial(on_nodes, resources=Resources(cpus=3))
    words = f"does not see the store {store}: it is not there; every node must see the store"
    cases = {
        f"mount -t tmpfs tmpfs {store}": words,
        f"export PYTHONPATH={tmp_path}:$PYTHONPATH": r"No module named 'prunecast'; install the same prunecast",
    }
    for before, told in cases.items():
        with strange_node(nodes, before), pytest.raises(PrunecastError, match=told):
            list(run_plan(parsed(BRIEF), store, executor=there))


def test_deaths_are_told_from_mistakes():
    from ray import exceptions as errors

    for failure in (errors.WorkerCrashedError(), errors.NodeDiedError(""), errors.OutOfMemoryError("")):
        assert is_death(failure)
    for failure, words in {
        errors.LocalRayletDiedError(): "Ray's node on this machine has died",
        errors.RaySystemError(
            "no more"
        ): "Ray gave up: RaySystemError: System error: no more. Nothing finished",
        errors.RayTaskError("f", "", StoreError("the disk is full"), "f", 1, "here"): "the disk is full",
    }.items():
        assert not is_death(failure)
        assert words in str(refusal(failure))


def test_a_driver_of_another_version_is_refused(tmp_path, nodes, disconnected, monkeypatch):
    import ray

    monkeypatch.setattr(ray, "__version__", "2.59.0")
    with pytest.raises(PrunecastError, match=r"Version mismatch: .* install the same ray and Python"):
        list(drive([], tmp_path, backend=partial(RayBackend, nodes.address)))


@pytest.mark.slow
def test_a_worker_stops_when_its_time_is_over_and_another_goes_on(tmp_path, on_nodes):
    brief = partial(on_nodes, work=rays.sleep_once, resources=Resources(minutes=0.02))
    plan = parsed(BRIEF.replace("level_cap = 2", "level_cap = 0"))
    events = list(run_plan(plan, tmp_path, executor=brief))
    assert sorted(event.number for event in events if isinstance(event, Progress)) == [1, 2, 3, 4]
    assert len(list(tmp_path.glob("slept-*"))) == 2


@pytest.mark.slow
def test_a_chain_without_a_checkpoint_in_its_time_fails_with_the_remedy(tmp_path, on_nodes):
    text = BRIEF.replace("epochs = 2", "epochs = 20000").replace("[100, 200]", "100")
    plan = parsed(text.replace("replicates = 2", "replicates = [0]"))
    brief = partial(on_nodes, resources=Resources(minutes=0.02))
    (failed,) = (event for event in run_plan(plan, tmp_path, executor=brief) if isinstance(event, Failed))
    assert "minutes were over. Give more --minutes, or a recipe with" in failed.error


@pytest.fixture
def plan_file(tmp_path):
    path = tmp_path / "brief.toml"
    path.write_text(BRIEF.replace("level_cap = 2", "level_cap = 6"))
    return path


@pytest.mark.slow
def test_ctrl_c_ends_the_workers_and_the_same_command_goes_on(tmp_path, plan_file, nodes):
    store, plan = tmp_path / "store", parsed(plan_file.read_text())
    command = [*PRUNECAST, "run", str(plan_file), "--store", str(store), "--on", "ray"]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while "level  0" not in run.stdout.readline():
        assert run.poll() is None
    holders = [own.holder.pid for own in chain_statuses(plan, store) if own.state == "running" and own.holder]
    run.send_signal(signal.SIGINT)
    _, told = run.communicate()
    assert (run.returncode, len(told.splitlines())) == (130, 1), told
    assert told.startswith("Stopped. ")
    assert not [pid for pid in holders if Path(f"/proc/{pid}").exists()]
    there = {**os.environ, "RAY_ADDRESS": nodes.address}
    again = subprocess.run(command, capture_output=True, text=True, check=False, env=there)
    assert (again.returncode, again.stderr) == (0, "")
    assert "chains finished; " in again.stdout
    list(run_plan(plan, tmp_path / "unbroken"))
    assert table(plan, store) == table(plan, tmp_path / "unbroken")


def test_mistakes_are_one_sentence(tmp_path, plan_file, disconnected, monkeypatch):
    def told(*options):
        arguments = ["run", str(plan_file), "--store", str(tmp_path / "store"), *options]
        return str(CliRunner().invoke(cli, arguments).exception)

    assert "No Ray cluster answers at 127.0.0.1:1 (Connection refused); start one with `ray start" in told(
        "--on", "ray", "--address", "127.0.0.1:1"
    )
    monkeypatch.setitem(sys.modules, "ray", None)
    assert told("--on", "ray") == (
        "--on ray needs Ray, which is not installed here; pip install 'prunecast[ray]'."
    )
