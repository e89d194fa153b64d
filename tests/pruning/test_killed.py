import dataclasses
import multiprocessing
import random
import signal
import time

import pytest
import torch
from digits_chains import numbers
from tiny import chain, digits, run, work

from prunecast.pruning import chain_folder, open_chain, start_digest, store_start
from prunecast.pruning.files import read_tensors

CAP = 6
KILLS = 20
MODERN = {
    "optimizer": "adamw",
    "learning_rate": 0.01,
    "weight_decay_on": "weights",
    "schedule": "one-cycle",
    "label_smoothing": 0.1,
    "gradient_clip": 0.5,
}
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


def place(store, spec):
    """How far a killed chain had come: finished levels, and the step of its checkpoint."""
    folder = chain_folder(store, spec)
    checkpoint = read_tensors(folder.checkpoint)[1]["step"] if folder.checkpoint.exists() else None
    return len(folder.records()), checkpoint


def files(store, spec):
    """The contents of every file that holds no times."""
    path = chain_folder(store, spec).path
    return {file.name: file.read_bytes() for file in path.glob("*.safetensors")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "changes", "wanted"),
    [
        ("imp", {"epochs": 16}, KILLS),
        ("imp-rate-rewinding", {"epochs": 16, **MODERN}, KILLS // 4),
        ("imp-fine-tuning", {"steps": 60}, KILLS // 4),
        ("synflow", {"steps": 60}, KILLS // 4),
        ("synflow", {"steps": 60, "initial_weights": "own"}, KILLS // 4),
        ("imp-channels", {"epochs": 16}, KILLS // 4),
        ("imp-2:4", {"epochs": 16}, KILLS // 4),
        ("imp-fine-tuning", {"steps": 60, **MODERN, "final_learning_rate": 0.001, "start": True}, KILLS // 4),
    ],
)
def test_a_chain_killed_again_and_again_ends_like_an_unbroken_one(
    tmp_path, monkeypatch, method, changes, wanted
):
    monkeypatch.setenv("PRUNECAST_TRIES", "1000")
    starts = changes.get("start", False)
    family = "own_networks:vit" if "initial_weights" in changes else "digits_cnn"
    recipe = {name: own for name, own in changes.items() if name != "start"}
    spec = chain(family=family, method=method, recipe=recipe)
    if starts:
        network = open_chain(spec, tmp_path / "network", digits()).untrained
        torch.save(network.state_dict(), tmp_path / "weights.pt")
        digest = start_digest(tmp_path / "weights.pt")
        spec = dataclasses.replace(spec, start=digest, start_trained=True)

    def prepared(name):
        if starts:
            store_start(tmp_path / name, tmp_path / "weights.pt", spec.start)
        return tmp_path / name

    began = time.perf_counter()
    unbroken = run(prepared("unbroken"), spec, cap=CAP)
    longest = 4 * (time.perf_counter() - began) / wanted
    moments = random.SystemRandom()
    kills, stores, places = 0, [prepared("killed-0")], set()
    while kills < wanted or len(places) < wanted // 2:
        if killed_after(moments.uniform(0, longest), stores[-1], spec):
            kills += 1
            # A kill that found no progress since the last one tells less, so the next may come later.
            longest *= 1.2 if place(stores[-1], spec) in places else 1
            places.add(place(stores[-1], spec))
        else:
            stores.append(prepared(f"killed-{len(stores)}"))
    for store in stores:
        assert numbers(run(store, spec, cap=CAP)) == numbers(unbroken)
        assert files(store, spec) == files(tmp_path / "unbroken", spec)
