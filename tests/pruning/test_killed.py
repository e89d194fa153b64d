import multiprocessing
import random
import signal
import time

import pytest
from tiny import chain, numbers, run, work

from prunecast.pruning import chain_folder

CAP = 6
KILLS = 20
# Real processes under a real SIGKILL, forked from a server that has torch already imported.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["torch", "prunecast.pruning"])


def killed_after(delay, store, spec):
    """Work on the chain in a process of its own and kill it; whether there was still something to kill."""
    here, there = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=work, args=(store, spec, CAP, there))
    process.start()
    assert here.recv() == "working"
    process.join(delay)
    process.kill()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def files(store, spec):
    """The contents of every file that holds no times."""
    path = chain_folder(store, spec).path
    return {file.name: file.read_bytes() for file in path.glob("*.safetensors")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "optimizer", "steps"),
    [
        ("imp", "sgd", None),
        ("imp-rate-rewinding", "adam", None),
        ("imp-fine-tuning", "sgd", 60),
        ("synflow", "sgd", 30),
    ],
)
def test_a_chain_killed_again_and_again_ends_like_an_unbroken_one(tmp_path, method, optimizer, steps):
    spec = chain(
        method=method, recipe={"optimizer": optimizer, "epochs": 8, **({"steps": steps} if steps else {})}
    )
    began = time.perf_counter()
    unbroken = run(tmp_path / "unbroken", spec, cap=CAP)
    longest = 2 * (time.perf_counter() - began) / KILLS
    moments = random.SystemRandom()
    kills = chains = 0
    while kills < (KILLS if method == "imp" else KILLS // 4):
        store = tmp_path / f"killed-{chains}"
        if killed_after(moments.uniform(0, longest), store, spec):
            kills += 1
        else:
            chains += 1
    for store in tmp_path.glob("killed-*"):
        assert numbers(run(store, spec, cap=CAP)) == numbers(unbroken)
        assert files(store, spec) == files(tmp_path / "unbroken", spec)
