"""Damaged archives and cache entries, links, pipes and full disks: a sentence or the right images, nothing else."""

import bz2
import gzip
import io
import json
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from pictures import class_folders

from prunecast.data import cache, load
from prunecast.data.files import read_archive
from prunecast.errors import PrunecastError

COMPRESS = {"tar": bytes, "tar.gz": gzip.compress, "tar.bz2": bz2.compress, "tar.xz": lzma.compress}
COMPRESS |= {"zip": bytes}


@pytest.fixture(autouse=True)
def forget():
    """Let every test be a process of its own, as far as verified entries are concerned."""
    cache._verified.clear()


def packed(place, suffix):
    """The bytes of an archive of all files below a folder."""
    buffer = io.BytesIO()
    if suffix == "zip":
        with zipfile.ZipFile(buffer, "w") as zipped:
            for file in sorted(place.rglob("*.png")):
                zipped.write(file, file.relative_to(place))
    else:
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for file in sorted(place.rglob("*.png")):
                tar.add(file, file.relative_to(place))
    return COMPRESS[suffix](buffer.getvalue())


@pytest.mark.parametrize("suffix", COMPRESS)
def test_an_archive_cut_anywhere_is_refused_or_whole(place, tmp_path, suffix):
    class_folders(place)
    data, archive = packed(place, suffix), tmp_path / f"cut.{suffix}"
    archive.write_bytes(data)
    whole = read_archive(archive).contents
    assert len(whole) == 18
    refused = 0
    for length in np.linspace(0, len(data) - 1, 60).astype(int).tolist():
        archive.write_bytes(data[:length])
        try:
            assert read_archive(archive).contents == whole, f"{length} of {len(data)} bytes"
        except PrunecastError:
            refused += 1
    assert refused == 60 or (suffix == "tar" and refused > 30)  # the zeros that pad a tar may be missing


@pytest.mark.parametrize("count", [1, 7, 17])
def test_a_tar_cut_between_two_members_is_refused(place, tmp_path, count):
    class_folders(place)
    archive = tmp_path / "cut.tar"
    archive.write_bytes(packed(place, "tar"))
    with tarfile.open(archive) as tar:
        offset = tar.getmembers()[count].offset
    archive.write_bytes(archive.read_bytes()[:offset])
    with pytest.raises(PrunecastError, match=r"cut\.tar cannot be read \(it is cut short or damaged"):
        load("folder", root=archive)
    for suffix in ("tar.gz", "tar.bz2", "tar.xz"):
        compressed = tmp_path / f"cut.{suffix}"
        compressed.write_bytes(COMPRESS[suffix](archive.read_bytes()))
        with pytest.raises(PrunecastError, match=r"cannot be read \(it is cut short or damaged"):
            load("folder", root=compressed)


@pytest.mark.parametrize("block", [b"\0" * 512, b"x" * 512])
def test_a_tar_with_an_overwritten_header_is_refused(place, tmp_path, block):
    class_folders(place)
    archive = tmp_path / "bad.tar"
    data = bytearray(packed(place, "tar"))
    archive.write_bytes(data)
    with tarfile.open(archive) as tar:
        offset = tar.getmembers()[5].offset
    data[offset : offset + 512] = block
    archive.write_bytes(data)
    with pytest.raises(PrunecastError, match=r"bad\.tar cannot be read"):
        load("folder", root=archive)


@pytest.mark.parametrize("suffix", ["tar.gz", "zip"])
def test_a_wrong_checksum_is_refused(place, tmp_path, suffix):
    class_folders(place)
    archive = tmp_path / f"bad.{suffix}"
    data = bytearray(packed(place, suffix))
    at = -6 if suffix == "tar.gz" else data.index(b"IDAT") + 9
    data[at] ^= 1
    archive.write_bytes(data)
    with pytest.raises(PrunecastError, match=r"cannot be read .*CRC"):
        load("folder", root=archive)


def test_a_zip_cut_inside_a_zip_that_it_holds_is_refused(place, tmp_path):
    class_folders(place)
    inner = packed(place, "zip")
    archive = tmp_path / "outer.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr("inner.zip", inner)
        zipped.writestr("train/cat/1.png", b"1" * 100)
    archive.write_bytes(archive.read_bytes()[: 39 + len(inner) + 20])
    with pytest.raises(PrunecastError, match=r"outer\.zip cannot be read"):
        read_archive(archive)


def entry_of(folder):
    return next(path for path in folder.iterdir() if path.is_dir())


def flipped(file):
    data = bytearray(file.read_bytes())
    data[-9] ^= 64
    file.write_bytes(data)


def emptied(file):
    file.write_bytes(b"")


def cut(file):
    file.write_bytes(file.read_bytes()[:-5])


def garbled(file):
    file.write_bytes(os.urandom(len(file.read_bytes())))


def removed(file):
    file.unlink()


@pytest.mark.parametrize("harm", [flipped, emptied, cut, garbled, removed])
@pytest.mark.parametrize("name", ["train_images.npy", "test_labels.npy", "about.json", "classes.json"])
def test_a_damaged_entry_is_made_again(place, tmp_path, harm, name):
    class_folders(place)
    first = load("folder", root=place)
    entry = entry_of(tmp_path / "cache")
    whole = {file.name: file.read_bytes() for file in entry.iterdir()}
    harm(entry / name)
    cache._verified.clear()
    with pytest.warns(UserWarning, match="cache entry .* was damaged .* being rebuilt"):
        again = load("folder", root=place)
    assert (again.digest, again.train.labels.tolist()) == (first.digest, first.train.labels.tolist())
    assert {file.name: file.read_bytes() for file in entry.iterdir()} == whole
    assert [left.name for left in (tmp_path / "cache").iterdir() if left.is_dir()] == [entry.name]


def test_damage_that_a_process_could_not_have_seen_before_is_seen(place, tmp_path):
    class_folders(place)
    load("folder", root=place)
    flipped(entry_of(tmp_path / "cache") / "train_images.npy")
    with pytest.warns(UserWarning, match="images or labels have changed"):
        load("folder", root=place)


def test_an_entry_is_verified_once_per_process(place, monkeypatch):
    class_folders(place)
    load("folder", root=place)
    monkeypatch.setattr(cache, "_verify", None)
    load("folder", root=place)


def unsealed(entry, **changes):
    """Make an entry as it was before about.sha256, with some facts changed."""
    (entry / "about.sha256").unlink()
    about = json.loads((entry / "about.json").read_text())
    (entry / "about.json").write_text(json.dumps(about | changes))


def test_an_old_entry_is_verified_and_sealed(place, tmp_path, recwarn):
    class_folders(place)
    first = load("folder", root=place)
    entry = entry_of(tmp_path / "cache")
    unsealed(entry)
    (entry / "classes.json").unlink()
    before = (entry / "train_images.npy").stat().st_ino
    cache._verified.clear()
    assert load("folder", root=place).digest == first.digest
    assert (entry / "train_images.npy").stat().st_ino == before
    assert (entry / "about.sha256").exists()
    assert not recwarn.list


@pytest.mark.parametrize("changes", [{"num_classes": 2}, {"mean": [1.0, 2.0, 3.0]}, {"num_classes": "3"}])
def test_an_old_entry_with_wrong_facts_is_made_again(place, tmp_path, changes):
    class_folders(place)
    first = load("folder", root=place)
    unsealed(entry_of(tmp_path / "cache"), **changes)
    cache._verified.clear()
    with pytest.warns(UserWarning, match="being rebuilt"):
        again = load("folder", root=place)
    assert (again.num_classes, again.digest) == (3, first.digest)
    assert again.train.mean.tolist() == first.train.mean.tolist()


def test_an_entry_that_cannot_be_replaced_is_named(place, tmp_path, monkeypatch):
    class_folders(place)
    load("folder", root=place)
    entry = entry_of(tmp_path / "cache")
    emptied(entry / "train_labels.npy")

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(cache, "mkdtemp", refuse)
    with pytest.raises(PrunecastError, match=rf"{entry.name} is damaged .*cannot be replaced .*delete it"):
        load("folder", root=place)


def test_an_entry_that_may_not_be_read_is_not_called_damaged(place, tmp_path, monkeypatch):
    class_folders(place)
    load("folder", root=place)

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(cache, "_mapped", refuse)
    with pytest.raises(PrunecastError, match=r"cannot be read \(Permission denied\); make it readable"):
        load("folder", root=place)


@pytest.mark.parametrize("target", [".", "..", "../..", "../../.."])
def test_links_that_lead_back_add_no_images(place, target):
    class_folders(place / "mine")
    before = load("folder", root=place)
    (place / "mine" / "train" / "cat" / "loop").symlink_to(target)
    (place / "mine" / "train" / "cat" / "itself").symlink_to("itself")
    after = load("folder", root=place)
    assert (len(after.train), after.digest) == (9, before.digest)


def test_classes_that_link_to_each_other_are_refused(place):
    class_folders(place)
    (place / "train" / "cat" / "more").symlink_to("../dog")
    (place / "train" / "dog" / "more").symlink_to("../cat")
    with pytest.raises(PrunecastError, match=r"are the same folder, so its images would count twice"):
        load("folder", root=place)


def test_many_links_across_classes_end(place):
    classes = [f"class{number:02}" for number in range(14)]
    class_folders(place, classes=classes, per_class=1)
    for one in classes:
        for two in classes:
            (place / "train" / one / two).symlink_to(place / "train" / two)
    with pytest.raises(PrunecastError, match="are the same folder"):
        load("folder", root=place)


def test_the_test_half_may_be_a_link_to_the_training_half(place):
    class_folders(place)
    shutil.rmtree(place / "test")
    (place / "test").symlink_to("train")
    data = load("folder", root=place)
    assert data.test.labels.tolist() == data.train.labels.tolist()


FULL_DISK = """
import os, sys, tempfile
sys.path.insert(0, {tests!r})
from pictures import class_folders
from pathlib import Path
from prunecast.data import load
from prunecast.errors import PrunecastError
os.environ["PRUNECAST_CACHE"] = {cache!r}
class_folders(Path({place!r}), height=64, width=64)
try:
    load("folder", root=Path({place!r}))
except PrunecastError as problem:
    print(problem)
"""


def test_a_full_disk_under_the_cache_is_one_sentence(place, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=64k none {disk} && exec {sys.executable} -c"
    isolated = ["unshare", "-m", "sh", "-c", f'{mount} "$0"']
    if subprocess.run([*isolated, "pass"], check=False, capture_output=True).returncode:
        pytest.skip("mounting a small disk needs root")
    code = FULL_DISK.format(tests=str(Path(__file__).parent), cache=str(disk), place=str(place))
    ran = subprocess.run([*isolated, code], check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran
    assert "cannot write the cache" in ran.stdout
    assert "No space left on device" in ran.stdout


@pytest.mark.parametrize(
    "failure", [OSError(95, "Operation not supported"), AttributeError("posix_fallocate")]
)
def test_space_is_reserved_where_the_system_has_no_call_for_it(tmp_path, monkeypatch, failure):
    def refuse(*_):
        raise failure

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    file = tmp_path / "sparse"
    with file.open("wb") as opened:
        opened.write(b"head")
        opened.truncate(1 << 20)
    cache.reserve(file)
    assert file.stat().st_blocks * 512 >= 1 << 20
    assert file.read_bytes() == b"head".ljust(1 << 20, b"\0")
