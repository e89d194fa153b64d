"""Damage and forge the files of a store at random, and see that every command answers with a sentence.

    python tools/fuzz_store.py --cases 2000 --seed 0

Each case copies a small store, changes one file of its chain, and then reads its status, checks it and trains the next
level. A change of raw bytes must end in a refusal or in the numbers of an unbroken run. A forged file has valid
checksums, so its numbers may differ, but it must not end in another exception than a PrunecastError, nor take long.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from prunecast.cli import show
from prunecast.errors import PrunecastError
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
from prunecast.sweep import Plan, chain_statuses, parse_plan
from prunecast.sweep.events import Job
from prunecast.sweep.failures import record_failure
from prunecast.sweep.status import plan_edit, remember_plan
from prunecast.sweep.table import as_csv, rows_of
from prunecast.sweep.worker import loader
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
"""
FINISHED = 3
"""Levels of the store that is damaged; the chain has one more."""
SECONDS = 30
"""No case may take longer."""
ODD: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        -1,
        0,
        1,
        2,
        7,
        0.5,
        1e308,
        -1e-300,
        2**31,
        2**63,
        10**400,
        float("nan"),
        float("inf"),
    ),
    *(
        "",
        "x",
        "7",
        "\x1b[31m",
        "\ud800",
        "x" * 10_000,
        [],
        {},
        [[]],
        [0] * 9,
        {"x": {}},
        [2**62, 4, 0],
        [10**10],
    ),
)


class TooLongError(BaseException):
    """A case took too long."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A case that ended as none may."""

    case: int
    change: str
    problem: str


def begun(store: Path) -> tuple[Plan, list[Record]]:
    """Train a small chain, and return its plan and records; in the store its last level is begun only."""
    plan = parse_plan(PLAN, name="fuzz", place="fuzz.toml")
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


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place within a JSON value."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


def altered(body: Any, chance: random.Random) -> str:
    """Change one place of a JSON value; return what was changed."""
    path = chance.choice(list(places(body)))
    parent = body
    for key in path[:-1]:
        parent = parent[key]
    if chance.random() < 0.2:
        del parent[path[-1]]
        return f"{path} deleted"
    parent[path[-1]] = odd = chance.choice(ODD)
    return f"{path} = {str(odd)[:40]!r}"


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


def damage(path: Path, chance: random.Random) -> str:
    """Another file in its place, or other bytes in it."""
    data = bytearray(path.read_bytes())
    kind = chance.choice(
        ("flip", "cut", "longer", "empty", "gone", "folder", "pipe", "nested", "noise", "zeros")
    )
    if kind == "flip":
        for _ in range(chance.choice((1, 1, 8))):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
    elif kind in ("gone", "folder", "pipe"):
        path.unlink()
        if kind != "gone":
            (path.mkdir if kind == "folder" else lambda: os.mkfifo(path))()
    else:
        content = {
            "cut": bytes(data[: chance.randrange(len(data))]),
            "longer": bytes(data) + chance.randbytes(9),
            "empty": b"",
            "nested": b"[" * 100_000,
            "noise": chance.randbytes(len(data)),
            "zeros": bytes(len(data)),
        }
        path.write_bytes(content[kind])
    return kind


def change(folder: Path, chance: random.Random) -> tuple[str, bool]:
    """Change one file of a chain; return how, and whether its checksums are valid."""
    path = chance.choice(sorted(path for path in folder.iterdir() if path.name != "lock"))
    forgers: tuple[Callable[[Path, random.Random], str], ...] = (forge_json, damage)
    if path.suffix == ".safetensors":
        forgers = (forge_notes, forge_tensor, forge_header, damage)
    forger = chance.choice(forgers)
    return f"{path.name}: {forger.__name__}: {forger(path, chance)}", forger is not damage


@contextlib.contextmanager
def within(seconds: int) -> Iterator[None]:
    """Raise a TooLongError after so long."""

    def over(*_: object) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


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
    plan, unbroken = begun(folder / "store")
    counts: Counter[str] = Counter()
    findings: list[Finding] = []
    for case in range(cases):
        store, chance = folder / "case", random.Random(f"{seed}/{case}")
        shutil.rmtree(store, ignore_errors=True)
        shutil.copytree(folder / "store", store)
        what = "nothing"
        problem = ""
        try:
            with within(SECONDS):
                what, forged = change(chain_folder(store, plan.chains[0].spec).path, chance)
                same = numbers(use(plan, store)) == numbers(unbroken)
                counts["same numbers" if same else "other numbers"] += 1
                if not same and not forged:
                    problem = "other numbers without a word"
        except PrunecastError:
            counts["refused"] += 1
        except TooLongError:
            problem = "took too long"
        except Exception:
            problem = traceback.format_exc()
        if problem:
            findings.append(Finding(case=case, change=what, problem=problem))
    return counts, findings


def main() -> int:
    """Run the fuzzer, print what it finds, and return 1 if that is anything."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        counts, findings = fuzz(given.cases, given.seed, Path(folder))
    for own in findings:
        print(f"case {own.case}: {own.change}\n{own.problem}")
    print(f"{given.cases} cases: {dict(counts)}, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
