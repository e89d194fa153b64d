"""What the fuzzers share: odd values, changes of JSON and of bytes, a time limit, and the loop over seeded cases."""

import argparse
import contextlib
import os
import random
import signal
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from prunecast.errors import PrunecastError

T = TypeVar("T")
SECONDS, WAITING = 60, 600
"""No case may compute or wait for longer; a busy machine makes a case wait."""
ODD: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2, 7, 0.5, 1e308, -1e-300, 2**31, 2**63, 10**400, float("nan")),
    *(float("inf"), "", "x", "7", "\x1b[31m", "\ud800", "x" * 10_000, [], {}, [[]], [0] * 9),
    *({"x": {}}, [2**62, 4, 0], [10**10]),
)


class TooLongError(BaseException):
    """A case took too long."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A case that ended as none may."""

    case: int
    change: str
    problem: str


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place within a JSON value."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


def descended(value: Any, chance: random.Random) -> tuple[Any, ...]:
    """A place within a JSON value, found downwards, so that long lists do not take all the attention."""
    path: tuple[Any, ...] = ()
    while isinstance(value, dict | list) and value and (not path or chance.random() < 0.7):
        key = chance.choice(list(value)) if isinstance(value, dict) else chance.randrange(len(value))
        path, value = (*path, key), value[key]
    return path


def altered(body: Any, chance: random.Random) -> str:
    """Change one place of a JSON value, to an odd value or one near the old; return what was changed."""
    path = chance.choice(list(places(body))) if chance.random() < 0.5 else descended(body, chance)
    parent = body
    for key in path[:-1]:
        parent = parent[key]
    if chance.random() < 0.2:
        del parent[path[-1]]
        return f"{path} deleted"
    before = parent[path[-1]]
    parent[path[-1]] = other = near(before, chance) if chance.random() < 0.4 else chance.choice(ODD)
    return f"{path} = {str(other)[:40]!r}"


def near(value: Any, chance: random.Random) -> Any:
    """Another value of the same type: another number, a list with other entries, an object without one, other text."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value * chance.choice((-1, 0, 2, 3, 100)) + chance.choice((0, 0, 1))
    if isinstance(value, list) and value:
        return chance.choice((value[:-1], value[::-1], [*value, value[-1]], value[1:] + value[:1], value[:1]))
    if isinstance(value, dict) and value:
        gone = chance.choice(list(value))
        return {key: own for key, own in value.items() if key != gone}
    return f"{value}x" if isinstance(value, str) else chance.choice(ODD)


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


def clear(path: Path) -> None:
    """Remove what a case may have left in the place of a file."""
    if path.is_dir():
        path.rmdir()
    path.unlink(missing_ok=True)


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Raise a TooLongError after so much computing, or where nothing is computed and nothing happens either."""

    def over(*_: object) -> None:
        raise TooLongError

    signals = (signal.SIGALRM, signal.SIGPROF)
    before = {own: signal.signal(own, over) for own in signals}
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, WAITING)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for own, handler in before.items():
            signal.signal(own, handler)


@dataclass
class Case:
    """One case: its own folder and random numbers, what it changes, and how it ended."""

    folder: Path
    chance: random.Random
    change: str = "nothing"
    outcome: str = ""
    """What is counted."""
    problem: str = ""
    """What may not happen; empty if nothing did."""


def run_cases(
    run: Callable[[Case], None], cases: int, seed: int, folder: Path
) -> tuple[Counter[str], list[Finding]]:
    """Run so many cases; count how they end, and return those that ended as none may.

    A refusal (a PrunecastError in one line) is a good end. Any other exception and a case that takes too long are not.
    """
    counts: Counter[str] = Counter()
    findings: list[Finding] = []
    for number in interruptible(range(cases)):
        case = Case(folder=folder, chance=random.Random(f"{seed}/{number}"))
        try:
            with limited(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run(case)
        except PrunecastError as refusal:
            case.outcome = "refused"
            if not str(refusal).isprintable():
                case.problem = f"refused in more than a sentence: {refusal!s}"
        except click.ClickException:
            case.outcome = "refused"
        except TooLongError:
            case.problem = "took too long"
        except Exception:
            case.problem = traceback.format_exc()
        counts[case.outcome or "neither"] += 1
        if case.problem:
            findings.append(Finding(case=number, change=case.change, problem=case.problem))
    return counts, findings


def interruptible(items: Iterable[T]) -> Iterator[T]:
    """The items until Ctrl-C (or `timeout -s INT`) is heard between two of them, so that what was found is printed."""
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        for item in items:
            if heard:
                return
            yield item
    finally:
        signal.signal(signal.SIGINT, before)


Fuzzer = Callable[[int, int, Path], tuple[Counter[str], list[Finding]]]


def main(fuzz: Fuzzer, description: str) -> int:
    """Run a fuzzer, print what it finds, and return 1 if that is anything."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        counts, findings = fuzz(given.cases, given.seed, Path(folder))
    for own in findings:
        print(f"case {own.case}: {own.change}\n{own.problem}")
    print(f"{counts.total():,} cases: {dict(counts)}, {len(findings)} findings")
    return 1 if findings else 0
