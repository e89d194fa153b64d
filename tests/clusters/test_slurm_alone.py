"""The parts of the Slurm backend that need no cluster."""

import dataclasses
import multiprocessing
import os
import pickle
import signal
import time

import pytest
from slurm_plans import LONG, planned, table

from prunecast.clusters import slurm
from prunecast.clusters.slurm import Pace, SlurmBackend, _dead_drivers, _driver_folder, _Job, run_job
from prunecast.clusters.slurm_commands import QueuedJob, check_options, check_tools, parameters
from prunecast.errors import PrunecastError
from prunecast.pruning import chain_folder, code_version, read_json, read_tensors
from prunecast.sweep import Ended, Job, Resources, WorkerSpec, drive, run_plan, work
from prunecast.sweep.shared_store import identified

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["slurm_plans"])
ONE = LONG.replace("[1, 2]", "0.5").replace("[75, 100]", "75")
WELL = {"refused": "", "stopped": ""}


def jobs_of(text):
    return [Job(number=number, chain=chain) for number, chain in enumerate(planned(text).chains, 1)]


def describe(store, store_id, jobs, code=None, work=work):
    """Write the instructions for the worker of a job."""
    store.mkdir(exist_ok=True)
    spec = WorkerSpec(
        jobs=tuple(jobs), store=store, store_id=store_id, code=code or code_version(), work=work
    )
    (store / "worker.pickle").write_bytes(pickle.dumps(spec))


def ended(store):
    return read_json(store / "ended-0.json")


@pytest.mark.slow
def test_a_worker_that_is_told_to_stop_does_so_at_once_and_the_next_goes_on_from_its_checkpoint(tmp_path):
    text = ONE.replace("epochs = 2", "epochs = 90").replace("level_cap = 37", "level_cap = 0")
    (job,) = jobs_of(text)
    folder, steps = chain_folder(tmp_path, job.chain.spec), [0]
    for name in ("SIGTERM", "SIGUSR1", "SIGUSR2"):
        with identified(tmp_path) as store_id:
            describe(tmp_path, store_id, [job])
            process = PROCESSES.Process(target=run_job, args=(tmp_path, 0))
            process.start()
            while not folder.checkpoint.exists() or read_tensors(folder.checkpoint)[1]["step"] == steps[-1]:
                assert process.is_alive(), ended(tmp_path)
                time.sleep(0.01)
            os.kill(process.pid, signal.Signals[name])
            process.join()
        stopped = "SIGTERM" if name == "SIGTERM" else "a time limit"
        assert (process.exitcode, ended(tmp_path)["stopped"]) == (0, stopped)
        assert read_json(tmp_path / "began-0.json")["locks"] == ""
        steps.append(read_tensors(folder.checkpoint)[1]["step"])
    assert steps == sorted(set(steps)), "nobody begins anew"
    (event,) = run_plan(planned(text), tmp_path)  # nobody holds the chain any more
    list(run_plan(planned(text), tmp_path / "unbroken"))
    assert table(text, tmp_path) == table(text, tmp_path / "unbroken")
    assert event.record.steps == 90 * 3


def in_this_process(folder):
    """Run a job in this process, and restore the signal handlers."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)}
    try:
        run_job(folder, 0)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def signalled(jobs, store, **_):
    try:
        signal.raise_signal(signal.SIGUSR2)
        yield
    finally:
        signal.raise_signal(signal.SIGTERM)
        (store / "stored").touch()


def test_what_is_stored_after_a_signal_is_not_broken_off_by_the_next(tmp_path):
    with identified(tmp_path) as store_id:
        describe(tmp_path, store_id, jobs_of(ONE), work=signalled)
        in_this_process(tmp_path)
    assert (ended(tmp_path)["stopped"], (tmp_path / "stored").exists()) == ("a time limit", True)


def test_a_worker_refuses_another_store_and_other_code_and_passes_over_what_others_hold(tmp_path):
    text = ONE.replace("level_cap = 37", "level_cap = 0")
    (job,) = jobs_of(text)
    with identified(tmp_path) as store_id:
        describe(tmp_path, store_id, [job], code="0.0.1+other")
        in_this_process(tmp_path)
        assert "but the driver has 0.0.1+other; install the same version" in ended(tmp_path)["refused"]
        describe(tmp_path, store_id, [job])
        with chain_folder(tmp_path, job.chain.spec).locked():
            in_this_process(tmp_path)
            assert (ended(tmp_path), table(text, tmp_path)) == (WELL, [])
        in_this_process(tmp_path)
        assert (ended(tmp_path), len(table(text, tmp_path))) == (WELL, 1)
        assert read_json(tmp_path / "began-0.json")["locks"] == ""
    in_this_process(tmp_path)
    assert "does not see locks" in read_json(tmp_path / "began-0.json")["locks"], "nobody holds the lock now"
    assert ended(tmp_path) == WELL, "only a driver that lives knows that this is wrong"


def test_folders_of_dead_drivers_are_found(tmp_path):
    with _driver_folder(tmp_path) as first, _driver_folder(tmp_path) as second:
        assert _dead_drivers(tmp_path) == []
        (first / "1").mkdir()
    assert not second.exists()
    assert _dead_drivers(tmp_path) == [first], "it has logs"


NEEDS = {
    "nothing": (Resources(), {"cpus_per_task": 1, "time": None}),
    "cpus": (Resources(cpus=2.5), {"cpus_per_task": 3, "srun_args": ["--cpus-per-task=3"]}),
    "gpus": (Resources(gpus=2), {"gpus_per_node": 2}),
    "time": (Resources(minutes=120), {"time": 120, "signal_delay_s": 60}),
    "little time": (Resources(minutes=2), {"time": 2, "signal_delay_s": 30}),
    "time on a GPU": (Resources(gpus=1, minutes=120), {"time": 120, "signal_delay_s": 150}),
    "no limit on a GPU": (Resources(gpus=1), {"time": None, "signal_delay_s": 150}),
    "memory": (Resources(memory_gb=1.5), {"mem": "1536M"}),
}


@pytest.mark.parametrize("name", NEEDS)
def test_resources_become_options_of_sbatch(name):
    need, expected = NEEDS[name]
    found = parameters(need, {"account": "mine"})
    assert {key: found[key] for key in expected} == expected
    assert found["additional_parameters"] == {"requeue": True, "account": "mine"}
    assert ("gpus_per_node" in found) == bool(need.gpus)


def test_a_gres_of_ones_own_takes_the_place_of_gpus():
    assert "gpus_per_node" not in parameters(Resources(gpus=1), {"gres": "gpu:a100:1"})


def test_mistakes_are_named_before_anything_is_submitted(tmp_path, monkeypatch):
    with pytest.raises(PrunecastError, match=r"--sbatch time=5: give --minutes instead"):
        check_options({"time": "5"})
    with pytest.raises(PrunecastError, match=r"--sbatch array=5: prunecast sets it itself"):
        check_options({"array": "5"})
    with pytest.raises(PrunecastError, match=r"gpus is 0.5, but Slurm allocates whole GPUs; give 1"):
        parameters(Resources(gpus=0.5), {})
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        PrunecastError, match="needs Slurm's command sbatch, which was not found; run prunecast where"
    ):
        next(drive(jobs_of(ONE), tmp_path, backend=SlurmBackend))
    monkeypatch.setitem(__import__("sys").modules, "submitit", None)
    with pytest.raises(
        PrunecastError, match=r"needs submitit; install it with: pip install 'prunecast\[slurm\]'"
    ):
        check_tools()
    assert not (tmp_path / "slurm").exists()


@pytest.mark.parametrize(
    ("need", "devices", "per_job", "workers"),
    [
        (Resources(), 1, 1, 4),
        (Resources(), 1, 3, 2),
        (Resources(at_once=1), 1, 3, 1),
        (Resources(gpus=1), 1, 1, 1),
        (Resources(gpus=1, at_once=3), 1, 1, 3),
        (Resources(gpus=2), 2, 1, 4),
    ],
)
def test_how_many_jobs_chains_are_worth(tmp_path, monkeypatch, need, devices, per_job, workers):
    backend = SlurmBackend(chains_per_job=per_job)
    monkeypatch.setattr(backend, "_begin", lambda store: None)
    chains = [dataclasses.replace(chain, devices=devices) for chain in planned(LONG).chains]
    jobs = tuple(Job(number=number, chain=chain) for number, chain in enumerate(chains, 1))
    spec = WorkerSpec(jobs=jobs, store=tmp_path, resources=need, packed=need.gpus > 0)
    assert backend.room(spec) == workers


def test_jobs_that_wait_when_nothing_is_left_are_cancelled_and_reported(tmp_path, monkeypatch):
    waiting, running = (
        QueuedJob(name="prunecast-own", job=f"7_{index}", state=state, restarts=0, reason="")
        for index, state in enumerate(["PENDING", "RUNNING"])
    )
    in_queue, cancelled = [waiting, running], []
    monkeypatch.setattr(slurm, "queue", lambda names: list(in_queue))
    monkeypatch.setattr(slurm, "cancel", cancelled.extend)
    backend = SlurmBackend(pace=Pace(least=0.01, most=0.01))
    backend._name = waiting.name
    backend._jobs = {
        row.job: _Job(folder=tmp_path, index=index, need=Resources()) for index, row in enumerate(in_queue)
    }
    backend.no_more()
    in_queue.remove(waiting)
    assert cancelled == ["7_0"]
    assert list(backend.ended(0)) == [Ended(worker="7_0")]
    assert list(backend.ended(0.02)) == [], "once is enough, and the other one runs"
