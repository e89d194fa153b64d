import io
import multiprocessing
import os
import stat
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from pictures import class_folders, picture

from prunecast.data import cache_folder, load
from prunecast.data.files import read_archive
from prunecast.errors import PrunecastError

OUTSIDE = ["/tmp/evil", "../evil", "a/../../evil", "..\\evil", "C:\\evil", "a/..\\..\\evil"]


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_names_that_point_outside_are_refused(tmp_path, name, kind):
    archive = tmp_path / f"bad.{kind}"
    if kind == "tar":
        with tarfile.open(archive, "w") as tar:
            member = tarfile.TarInfo(name)
            member.size = 4
            tar.addfile(member, io.BytesIO(b"evil"))
    else:
        with zipfile.ZipFile(archive, "w") as zipped:
            zipped.writestr(name, "evil")
    with pytest.raises(
        PrunecastError, match=r"bad\.\w+: its member .* points outside the archive; download it again"
    ):
        read_archive(archive)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_in_tars_are_refused(tmp_path, kind):
    archive = tmp_path / "bad.tar"
    with tarfile.open(archive, "w") as tar:
        member = tarfile.TarInfo("link")
        member.type, member.linkname = kind, "/etc"
        tar.addfile(member)
        below = tarfile.TarInfo("link/passwd")
        below.size = 4
        tar.addfile(below, io.BytesIO(b"evil"))
    with pytest.raises(PrunecastError, match="'link' is a link or a device"):
        read_archive(archive)


def test_links_in_zips_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as zipped:
        member = zipfile.ZipInfo("link")
        member.external_attr = (stat.S_IFLNK | 0o777) << 16
        zipped.writestr(member, "/etc")
    with pytest.raises(PrunecastError, match="'link' is a link or a device"):
        read_archive(tmp_path / "bad.zip")


def test_reading_an_archive_writes_nothing_beside_the_cache_entry(place, tmp_path, cache):
    class_folders(place)
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as zipped:
        for file in place.rglob("*.png"):
            zipped.write(file, file.relative_to(place))
    before = {path for path in tmp_path.rglob("*") if cache not in path.parents}
    load("folder", root=tmp_path / "set.zip")
    assert {path for path in tmp_path.rglob("*") if cache not in path.parents} == before | {cache}
    entries = [path for path in cache.iterdir() if path.is_dir()]
    assert sorted(path.name for path in entries[0].iterdir()) == [
        "about.json",
        "about.sha256",
        "classes.json",
        "test_images.npy",
        "test_labels.npy",
        "train_images.npy",
        "train_labels.npy",
    ]
    assert len(entries) == 1


def test_an_archive_too_large_for_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("prunecast.data.files.MOST_BYTES", 10)
    with zipfile.ZipFile(tmp_path / "large.zip", "w") as zipped:
        zipped.writestr("a", b"123456")
        zipped.writestr("b", b"123456")
    with pytest.raises(PrunecastError, match=r"large\.zip holds more than .* unpack it first"):
        read_archive(tmp_path / "large.zip")


@pytest.mark.parametrize("name", ["cut.tar.xz", "cut.tar.gz", "cut.zip"])
def test_cut_archives_are_named(tmp_path, place, name):
    class_folders(place)
    archive = tmp_path / name
    if name.endswith("zip"):
        with zipfile.ZipFile(archive, "w") as zipped:
            for file in place.rglob("*.png"):
                zipped.write(file, file.relative_to(place))
    else:
        with tarfile.open(archive, f"w:{name[-2:]}") as tar:
            tar.add(place, ".")
    archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
    with pytest.raises(PrunecastError, match=f"{name} cannot be read"):
        load("folder", root=archive)


def test_a_dataset_is_decoded_once_and_again_when_it_changes(place, cache):
    class_folders(place)
    first = load("folder", root=place)
    entries = [entry for entry in cache.iterdir() if entry.is_dir()]
    assert len(entries) == 1
    times = {file: file.stat().st_mtime_ns for file in entries[0].iterdir()}
    assert load("folder", root=place).digest == first.digest
    assert times == {file: file.stat().st_mtime_ns for file in entries[0].iterdir()}
    file = place / "train" / "cat" / "1.png"
    picture(file, 777)
    os.utime(file, ns=(1, 1))
    assert load("folder", root=place).digest != first.digest
    assert load("folder", root=place, image_size=8).train.image_shape == (3, 8, 8)
    assert len([entry for entry in cache.iterdir() if entry.is_dir()]) == 3


def test_nothing_of_a_failed_reading_is_left(place, cache):
    class_folders(place)
    (place / "test" / "dog" / "2.png").write_bytes(b"broken")
    with pytest.raises(PrunecastError, match=r"dog/2\.png"):
        load("folder", root=place)
    assert [left.suffix for left in cache.iterdir()] == [".lock"]


def test_what_killed_runs_left_behind_is_swept_after_a_day(place, cache):
    old, young = cache / ".partial-old", cache / ".partial-young"
    for left in (old, young):
        left.mkdir(parents=True)
        (left / "train_images.npy").write_bytes(b"half")
    os.utime(old, (0, 0))
    (cache / ".partial-gone").symlink_to("nowhere")  # listed, and gone when it is looked at
    class_folders(place)
    load("folder", root=place)
    assert (old.exists(), young.exists()) == (False, True)


def test_a_cache_that_cannot_be_written_says_so(place, tmp_path, monkeypatch):
    class_folders(place)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PRUNECAST_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(PrunecastError, match=r"cannot write the cache .*set PRUNECAST_CACHE"):
        load("folder", root=place)


def test_where_the_cache_is(monkeypatch):
    monkeypatch.setenv("PRUNECAST_CACHE", "/a/b")
    assert cache_folder() == Path("/a/b")
    monkeypatch.delenv("PRUNECAST_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache_folder() == Path("/x/prunecast")


def _digest(root):
    return load("folder", root=root).digest


def test_processes_that_start_together_share_one_entry(place, cache):
    class_folders(place, per_class=20)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        digests = pool.map(_digest, [place] * 4)
    assert len(set(digests)) == 1
    assert len([entry for entry in cache.iterdir() if entry.is_dir()]) == 1


def test_mapped_images_are_never_written_back(place, cache):
    class_folders(place)
    data = load("folder", root=place)
    images = next(cache.glob("folder-*")) / "train_images.npy"
    before = images.read_bytes()
    data.train.images.zero_()
    assert images.read_bytes() == before
    assert np.load(images).any()
