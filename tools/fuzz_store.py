"""Damage and forge the files of a store at random, and see that every command answers with a sentence.

    python tools/fuzz_store.py --cases 2000 --seed 0

Each case copies a small store of a chain that prunes single weights, channels or N:M, changes one file of the chain,
and then reads its status, checks it and trains the next level. A change of raw bytes must end in a refusal or in the
numbers of an unbroken run. A forged file has valid checksums, so its numbers may differ, but it must not end in another
exception than a PrunecastError, nor take long.
"""

import json
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from fuzzing import Case, Finding, altered, damage, main, run_cases

from prunecast.cli import show
from prunecast.pruning import (
    Checkpoint,
    Record,
    chain_folder,
    open_chain,
    open_level,
    read_json,
    read_tensors,
    run_chain,
    verify_store,
    write_checkpoint,
    write_json,
    write_tensors,
)
from prunecast.pruning import files as store_files
from prunecast.sweep import Plan, chain_statuses, loader, parse_plan
from prunecast.sweep.events import Job, record_failure
from prunecast.sweep.status import plan_edit, remember_plan
from prunecast.sweep.table import as_csv, rows_of
from prunecast.training import State

PLAN = """
family = "digits_cnn"
dataset = "digits"
depth = 3
width = 0.25
num_examples = 50
level_cap = 3
keep_weights = true
[recipe]
preset = "digits"
epochs = 2
rewind = 0.5
batch_size = 25
checkpoint_steps = 1
[stop]
disconnected = false
at_chance = 0
[method]
name = "own"
structure = "{structure}"
"""
STRUCTURES = ("weights", "channels", "1:4")
FINISHED = 3
"""Levels of the store that is damaged; the chain has one more."""


def begun(store: Path, structure: str) -> tuple[Plan, list[Record]]:
    """Train a small chain, and return its plan and records; in the store its last level is begun only."""
    plan = parse_plan(PLAN.replace("{structure}", structure), name="fuzz", place="fuzz.toml")
    chain = plan.chains[0]
    folder = chain_folder(store, chain.spec)
    data = loader(chain, torch.device("cpu"), {})
    records = list(run_chain(chain.spec, store, data, rules=chain.rules))
    shutil.rmtree(store)
    running = run_chain(chain.spec, store, data, rules=chain.rules, keep_weights=True)
    for _ in range(FINISHED):
        next(running)
    running.close()  # type: ignore[attr-defined]
    opened = open_chain(chain.spec, store, data())
    level = open_level(opened, records[:FINISHED])
    state = State(network=level.network, optimizer_state={})
    write_checkpoint(opened, level, Checkpoint(step=level.first, seconds=1.0, state=state))
    remember_plan(plan, store)
    record_failure(store, Job(number=1, chain=chain), ValueError("planted"))
    write_json(folder.path / "worker.json", _holder())
    return plan, records


def _holder() -> dict[str, Any]:
    own = {
        "host": "h",
        "pid": 1,
        "since": "2026-01-01T00:00:00+00:00",
        "tries": 1,
        "deaths": 0,
        "left": False,
    }
    return {**own, "footprint": [[0, 0], [0, 0]], "format": 1}


def forge_json(path: Path, chance: random.Random) -> str:
    """A JSON file with another value and a valid checksum."""
    body = read_json(path)
    what = altered(body, chance)
    write_json(path, body)
    return what


def forge_notes(path: Path, chance: random.Random) -> str:
    """A file of tensors with other notes and a valid checksum."""
    tensors, notes = read_tensors(path)
    what = altered(notes, chance)
    write_tensors(path, tensors, notes)
    return what


def forge_tensor(path: Path, chance: random.Random) -> str:
    """A file of tensors with a tensor dropped, renamed, cut, or of another type, and a valid checksum."""
    tensors, notes = read_tensors(path)
    name = chance.choice(list(tensors))
    tensor = tensors.pop(name)
    changes: dict[str, dict[str, torch.Tensor]] = {
        "dropped": {},
        "renamed": {"x": tensor},
        "cut": {name: tensor.flatten()[:-1]},
        "flat": {name: tensor.flatten()},
        "empty": {name: torch.zeros(0, 3)},
        "bytes": {name: torch.zeros(tensor.shape, dtype=torch.uint8)},
        "ones": {name: torch.full_like(tensor, 1)},
        "NaN": {name: torch.full(tensor.shape, float("nan"))},
        "doubled": {name: tensor, "x": tensor},
    }
    kind = chance.choice(list(changes))
    write_tensors(path, {**tensors, **changes[kind]}, notes)
    return f"{name} {kind}"


def forge_header(path: Path, chance: random.Random) -> str:
    """A file of tensors with another header and a valid checksum."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    body = json.loads(data[8:start])
    del body["__metadata__"]["sha256"]
    what = altered(body, chance)
    if isinstance(body.get("__metadata__"), dict):
        body["__metadata__"]["sha256"] = store_files._digest(store_files._dumped(body) + data[start:])
    text = json.dumps(body).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[start:])
    return what


def change(folder: Path, chance: random.Random) -> tuple[str, bool]:
    """Change one file of a chain; return how, and whether its checksums are valid."""
    path = chance.choice(sorted(path for path in folder.iterdir() if path.name != "lock"))
    forgers: tuple[Callable[[Path, random.Random], str], ...] = (forge_json, damage)
    if path.suffix == ".safetensors":
        forgers = (forge_notes, forge_tensor, forge_header, damage)
    forger = chance.choice(forgers)
    return f"{path.name}: {forger.__name__}: {forger(path, chance)}", forger is not damage


def use(plan: Plan, store: Path) -> list[Record]:
    """What the commands do with a store; a PrunecastError where they refuse it."""
    chain = plan.chains[0]
    statuses = chain_statuses(plan, store)
    show.status("fuzz", statuses, everything=True)
    as_csv(rows_of(statuses))
    plan_edit(plan, store)
    verify_store(store)
    data = loader(chain, torch.device("cpu"), {})
    return list(run_chain(chain.spec, store, data, rules=chain.rules, keep_weights=True))


def numbers(records: list[Record]) -> list[tuple[object, ...]]:
    """The records without the times."""
    return [(own.level, own.nonzero, own.density, own.error, own.loss) for own in records]


def fuzz(cases: int, seed: int, folder: Path) -> tuple[Counter[str], list[Finding]]:
    """Run so many cases; count how they end, and return those that ended as none may."""
    torch.set_num_threads(1)
    begun_with = {structure: begun(folder / structure, structure) for structure in STRUCTURES}

    def run(case: Case) -> None:
        store, structure = folder / "case", case.chance.choice(STRUCTURES)
        plan, unbroken = begun_with[structure]
        shutil.rmtree(store, ignore_errors=True)
        shutil.copytree(folder / structure, store)
        what, forged = change(chain_folder(store, plan.chains[0].spec).path, case.chance)
        case.change = f"{structure}: {what}"
        same = numbers(use(plan, store)) == numbers(unbroken)
        case.outcome = "same numbers" if same else "other numbers"
        if not same and not forged:
            case.problem = "other numbers without a word"

    return run_cases(run, cases, seed, folder)


if __name__ == "__main__":
    sys.exit(main(fuzz, __doc__ or ""))
