"""Archives, pickles and array files with random damage: the same images or one sentence, never anything else.

`PRUNECAST_FUZZ` multiplies the number of files; the default takes a few seconds.
"""

import io
import os
import pickle
import random
import signal
import sys
import tarfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from pictures import class_folders
from test_damage import COMPRESS, packed

from prunecast.data.arrays import find_arrays
from prunecast.data.files import Folder, read_archive
from prunecast.data.official import FORMATS
from prunecast.data.pickles import unpickle
from prunecast.errors import PrunecastError

TIMES = int(os.environ.get("PRUNECAST_FUZZ", "1"))
SECONDS_EACH = 20


def replaced(data: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice((1, 1, 4, 32))):
        data[rng.randrange(len(data))] = rng.randrange(256)


def flipped(data: bytearray, rng: random.Random) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def cut(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def removed(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data))
    del data[start : start + rng.choice((1, 7, 512, 1024))]


def repeated(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data))
    piece = data[start : start + rng.choice((1, 7, 512, 1024))]
    data[start:start] = piece * rng.choice((1, 1, 30))


def zeroed(data: bytearray, rng: random.Random) -> None:
    start, length = rng.randrange(len(data)), rng.choice((4, 512))
    data[start : start + length] = bytes(len(data[start : start + length]))


def enlarged(data: bytearray, rng: random.Random) -> None:
    """Write a number that asks for far too much."""
    start = rng.randrange(len(data))
    number = rng.choice(
        (b"\xff" * 4, b"\xff" * 8, b"\x7f" + b"\xff" * 7, b"77777777777", b"\x80" + b"\xff" * 11)
    )
    data[start : start + len(number)] = number


CHANGES = (replaced, flipped, cut, removed, repeated, zeroed, enlarged)


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Return data with one to three changes."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        if changed:
            rng.choice(CHANGES)(changed, rng)
    return bytes(changed)


class TooLong(BaseException):
    """Reading took too long; no reader takes this for damage."""


def fuzz(count: int, data: bytes, read: Callable[[bytes], object]) -> tuple[int, int]:
    """Read damaged copies; return how many were read and how many refused."""

    def too_long(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, too_long)
    accepted = 0
    try:
        for seed in range(count * TIMES):
            signal.alarm(SECONDS_EACH)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    read(damaged(data, random.Random(seed)))
                accepted += 1
            except PrunecastError:
                pass
            except BaseException as other:
                raise AssertionError(f"seed {seed}") from other
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return accepted, count * TIMES - accepted


@pytest.mark.parametrize("suffix", COMPRESS)
def test_damaged_archives(place, tmp_path, suffix):
    class_folders(place)
    data, archive = packed(place, suffix), tmp_path / f"damaged.{suffix}"
    archive.write_bytes(data)
    whole = read_archive(archive).contents

    def read(changed: bytes) -> None:
        archive.write_bytes(changed)
        contents = read_archive(archive).contents
        assert suffix == "tar" or len(contents) >= len(whole)  # a plain tar has no sum over its files

    _, refused = fuzz(150, data, read)
    assert refused


def test_damaged_tars_with_long_names(tmp_path):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for number, format_ in enumerate((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT) * 3):
            tar.format = format_
            member = tarfile.TarInfo(f"train/{'ä' * 120}/{number}.png")
            member.size = 600
            tar.addfile(member, io.BytesIO(bytes(600)))
    archive = tmp_path / "damaged.tar"

    def read(changed: bytes) -> None:
        archive.write_bytes(changed)
        read_archive(archive)

    _, refused = fuzz(400, buffer.getvalue(), read)
    assert refused


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_damaged_pickles(protocol):
    batch = {
        b"data": np.arange(2 * 3072).astype(np.uint8).reshape(2, 3072),
        b"labels": [3, 4],
        b"filenames": [b"a.png", "b.png"],
    }
    form = FORMATS[10][0]
    small = batch | {b"data": np.zeros((2, 3), np.uint8)}  # so that most changes fall on instructions

    def read(changed: bytes) -> None:
        unpickle(io.BytesIO(changed), Path("damaged"))
        form.read(io.BytesIO(changed), Path("damaged"))

    for content, count in ((batch, 200), (small, 1500)):
        _, refused = fuzz(count, pickle.dumps(content, protocol), read)
        assert refused


@pytest.mark.parametrize("bundle", ["damaged.npz", None])
def test_damaged_array_files(place, tmp_path, bundle):
    parts = {f"{half}_images": np.zeros((3, 4, 4), np.uint8) for half in ("train", "test")}
    parts |= {f"{half}_labels": np.arange(3) for half in ("train", "test")}
    target = place / (bundle or "train_labels.npy")
    if bundle:
        np.savez_compressed(target, **parts)
    else:
        for part, values in parts.items():
            np.save(place / f"{part}.npy", values)

    def read(changed: bytes) -> None:
        target.write_bytes(changed)
        find_arrays(Folder(base=place), bundle).write(tmp_path)

    _, refused = fuzz(200, target.read_bytes(), read)
    assert refused
