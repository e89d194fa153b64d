"""Data made to run code, to fill the memory or to wait forever; each is refused in one sentence."""

import gzip
import io
import os
import pickle
import resource
import struct
import sys
import tarfile
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.io import savemat

sys.path.insert(0, str(Path(__file__).parent))
from pictures import class_folders

from prunecast.data import from_arrays, load
from prunecast.data.files import read_archive
from prunecast.data.pickles import unpickle
from prunecast.errors import PrunecastError

ROOM = 200 << 20


@pytest.fixture
def little_memory():
    """Let this process take 200 MiB more than it has, so that a bomb is an error and not a dead machine."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + ROOM, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def refused(data, match):
    with pytest.raises(PrunecastError, match=rf"batch is not a readable dataset pickle .*{match}"):
        unpickle(io.BytesIO(data), Path("batch"))


class Reduced:
    """An object whose pickle is a call and a state."""

    def __init__(self, *parts):
        self.parts = parts

    def __reduce__(self):
        return self.parts


def array_pickle(code, shape=(4,), raw=b"abcd", state=(3, "|", None, None, None, -1, -1, 0)):
    """A pickle of an array with a type, a shape and bytes of one's choice."""
    reconstruct = np.empty(0).__reduce__()[0]
    kind = Reduced(np.dtype, (code, False, True), state)
    return pickle.dumps(Reduced(reconstruct, (np.ndarray, (0,), b"b"), (1, shape, kind, False, raw)), 2)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (array_pickle("O8"), "type 'O8' is not allowed"),
        (array_pickle("V4"), "type 'V4' is not allowed"),
        (array_pickle([("a", "O")]), "is not allowed"),
        (array_pickle("u1", state=(3, "|", ("a",), ("a",), {"a": 1}, 8, 1, 0)), "records is not allowed"),
        (array_pickle("u1", shape=(10**9, 10**9)), "cannot reshape"),
        (array_pickle("u1", shape=(-1,)), "not a block of numbers"),
        (array_pickle("u1", shape=[4]), "not a block of numbers"),
        (array_pickle("u1", raw=[1, 2, 3, 4]), "not a block of numbers"),
        (pickle.dumps(np.array([{}, {}], object), 2), "is not allowed"),
        (pickle.dumps(np.zeros(2, [("a", "u1")]), 2), "is not allowed"),
        (b"cnumpy\nndarray\n(J\xff\xff\xff\x7ftR.", "may not be called"),
        (b"cnumpy\ndtype\n]b.", "state of its own|is not allowed"),
        (pickle.dumps(Reduced), "Reduced is not allowed"),
        (b"\x80\x02P1\n.", "instruction PERSID is not allowed"),
        (b"\x80\x02\x82\x01.", "instruction EXT1 is not allowed"),
        (b"]r\xff\xff\xff\xffj\xfe\xff\xff\xff.", "4294967294"),
        (b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.", "expected"),
        (b"(((.", ""),
        (b"0.", ""),
        (b"t.", ""),
    ],
)
def test_pickles_that_are_no_plain_data_are_refused(data, match, little_memory):
    refused(data, match)


def test_keys_that_take_forever_to_hash_are_refused():
    shared = b"".join(b"q%ch%ch%c\x86" % (n, n, n) for n in range(60))
    refused(b"\x80\x02})" + shared + b"Ns.", "keys are not text")


def test_labels_that_make_an_endless_array_are_refused(place):
    folder = place / "cifar-100-python"
    folder.mkdir()
    labels = [0] * 1000
    for _ in range(5):
        labels = [labels] * 1000
    batch = {b"data": np.zeros((4, 3072), np.uint8), b"fine_labels": labels}
    for name in ("train", "test"):
        (folder / name).write_bytes(pickle.dumps(batch, 2))
    with pytest.raises(PrunecastError, match="`fine_labels` that are not whole numbers"):
        load("cifar100", root=place)


def test_a_float_array_of_labels_is_refused(place):
    folder = place / "cifar-100-python"
    folder.mkdir()
    batch = {b"data": np.zeros((4, 3072), np.uint8), b"fine_labels": np.array([0.0, np.nan, 1, 2])}
    for name in ("train", "test"):
        (folder / name).write_bytes(pickle.dumps(batch, 2))
    with pytest.raises(PrunecastError, match="type 'f8' is not allowed"):
        load("cifar100", root=place)


@pytest.mark.parametrize(
    ("kind", "mebibytes"), [(tarfile.XHDTYPE, 300), (tarfile.XGLTYPE, 0), (tarfile.GNUTYPE_LONGNAME, 0)]
)
def test_a_header_of_gigabytes_is_refused(tmp_path, kind, mebibytes, little_memory):
    header = tarfile.TarInfo("header")
    header.type, header.size = kind, 2 << 30
    archive = tmp_path / "bomb.tar.gz"
    with gzip.open(archive, "wb", 1) as file:
        file.write(header.tobuf())
        for _ in range(mebibytes):
            file.write(bytes(1 << 20))
    with pytest.raises(
        PrunecastError, match=r"bomb\.tar\.gz cannot be read \(a header is larger than 1024 KiB"
    ):
        read_archive(archive)


def test_a_tar_that_expands_beyond_measure_is_refused(tmp_path, little_memory):
    archive = tmp_path / "bomb.tar.gz"
    member = tarfile.TarInfo("train/cat/1.png")
    member.size = 300 << 20
    with gzip.open(archive, "wb", 1) as file:
        file.write(member.tobuf())
        for _ in range(300):
            file.write(bytes(1 << 20))
        file.write(bytes(1024))
    with pytest.raises(PrunecastError, match=r"bomb\.tar\.gz expands to more than 200 times its size"):
        read_archive(archive)


def zip_of_zeros(archive, mebibytes, said, method):
    """Write a zip whose one member says that it has so many bytes."""
    with zipfile.ZipFile(archive, "w", method, compresslevel=1) as zipped, zipped.open("a.png", "w") as file:
        for _ in range(mebibytes):
            file.write(bytes(1 << 20))
    data = bytearray(archive.read_bytes())
    directory = data.rindex(b"PK\1\2")
    data[directory + 24 : directory + 28] = struct.pack("<I", said)
    archive.write_bytes(data)


@pytest.mark.parametrize(
    ("mebibytes", "said", "method", "match"),
    [
        (300, 1000, zipfile.ZIP_DEFLATED, r"cannot be read \(Bad CRC"),
        (30, 1000, zipfile.ZIP_BZIP2, r"cannot be read \(Bad CRC"),
        (300, 300 << 20, zipfile.ZIP_DEFLATED, "expands to more than 200 times its size"),
    ],
)
def test_a_zip_that_expands_beyond_measure_is_refused(
    tmp_path, mebibytes, said, method, match, little_memory
):
    archive = tmp_path / "bomb.zip"
    zip_of_zeros(archive, mebibytes, said, method)
    with pytest.raises(PrunecastError, match=match):
        read_archive(archive)


def test_an_npz_file_that_expands_beyond_measure_is_refused(tmp_path, little_memory):
    images = np.broadcast_to(np.uint8(0), (300_000, 32, 32, 1))
    np.savez_compressed(tmp_path / "bomb.npz", train_images=images)
    with pytest.raises(PrunecastError, match=r"bomb\.npz expands to more than 200 times its size"):
        load("arrays", root=tmp_path / "bomb.npz")


def test_a_header_of_an_array_that_asks_for_all_memory_is_refused(place):
    for part in ("train_images", "test_images", "train_labels", "test_labels"):
        np.save(place / f"{part}.npy", np.zeros(4, np.uint8))
    header = (
        (place / "train_images.npy")
        .read_bytes()
        .replace(b"(4,), }" + b" " * 18, b"(1000000000000000,), }   ")
    )
    (place / "train_images.npy").write_bytes(header)
    with pytest.raises(PrunecastError, match=r"train_images\.npy cannot be read as plain arrays"):
        load("arrays", root=place)


def png(width, height):
    """A PNG file of black pixels, a thousandth of its size in memory."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = zlib.compress(bytes((width // 8 + 1) * height), 9)
    start = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", start) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.mark.filterwarnings("ignore:Image size")
@pytest.mark.parametrize("side", [10_000, 20_000])
def test_images_of_too_many_pixels_are_refused(place, side, little_memory):
    class_folders(place)
    (place / "train" / "bird" / "0.png").write_bytes(png(side, side))
    with pytest.raises(PrunecastError, match=r"bird/0\.png (has 10000x10000 pixels, which|.*exceeds limit)"):
        load("folder", root=place)


@pytest.mark.parametrize(("dtype", "suffix"), [(np.uint16, "png"), (np.int32, "tif"), (np.float32, "tif")])
def test_pixels_that_a_conversion_would_cut_off_are_refused(place, dtype, suffix):
    class_folders(place)
    deep = np.arange(64).reshape(8, 8).astype(dtype) * 1000
    Image.fromarray(deep).save(place / "train" / "bird" / f"9.{suffix}")
    with pytest.raises(
        PrunecastError, match=rf"9\.{suffix} has pixels of more than 8 bits \(mode (I;16|I|F)\)"
    ):
        load("folder", root=place)


def arrays(**changes):
    parts = {half: np.zeros((3, 4, 4), np.uint8) for half in ("train_images", "test_images")}
    return parts | {half: np.arange(3) for half in ("train_labels", "test_labels")} | changes


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"train_labels": np.array([0, np.nan, 1])}, "labels of type float64; they must be whole numbers"),
        ({"test_labels": np.array(["cat", "dog", "cat"])}, "labels of type <U3; they must be whole numbers"),
        ({"train_labels": np.array([0, None, 1])}, "labels of type object; they must be whole numbers"),
        (
            {"train_labels": np.array([0, 1, 2**63], np.uint64)},
            "the label 9223372036854775808; labels must be",
        ),
        ({"train_labels": np.array([0, 1, 2**40])}, "the label 1099511627776; labels must be 0 to 999999"),
        ({"train_labels": [[1], [1, 2], 3]}, "train_labels in mine is not an array"),
        ({"train_images": np.zeros((3, 0, 4), np.uint8)}, "train_images in mine is uint8 of shape"),
    ],
)
def test_labels_and_images_that_are_none_are_named(changes, match):
    with pytest.raises(PrunecastError, match=match):
        from_arrays(arrays(**changes), name="mine")


@pytest.mark.parametrize(
    "labels", [np.array([1.5, 2, 3]), np.array([np.nan, 2, 3]), np.array(["a", "b", "c"])]
)
def test_svhn_labels_that_are_no_numbers_are_named(place, labels):
    for half in ("train", "test"):
        savemat(place / f"{half}_32x32.mat", {"X": np.zeros((32, 32, 3, 3), np.uint8), "y": labels})
    with pytest.raises(PrunecastError, match=r"train_32x32\.mat has labels of type"):
        load("svhn", root=place)


@pytest.mark.parametrize("name", ["folder", "imagenet"])
def test_a_pipe_among_the_images_is_refused(place, name):
    class_folders(place, test="val")
    os.mkfifo(place / "train" / "bird" / "9.png")
    with pytest.raises(PrunecastError, match=r"9\.png is not a regular file; remove it"):
        load(name, root=place, image_size=8).train.read(torch.arange(10), None)


@pytest.mark.parametrize("name", ["folder", "arrays", "cifar10", "svhn", "imagenet"])
@pytest.mark.parametrize("file", ["pipe", "pipe.tar", "pipe.npz"])
def test_a_pipe_as_root_is_refused(place, name, file):
    os.mkfifo(place / file)
    with pytest.raises(
        PrunecastError, match=rf"{file} is (not a regular file|neither a folder|not a folder)"
    ):
        load(name, root=place / file)


def renamed(path, name):
    """Give a file a name that is not UTF-8."""
    return path.rename(path.with_name(os.fsdecode(name)))


def test_names_that_are_not_utf8(place):
    class_folders(place)
    before = load("folder", root=place).digest
    odd = renamed(place / "train" / "cat" / "1.png", b"1\xff.png")
    assert load("folder", root=place).digest == before
    odd.write_bytes(b"broken")
    with pytest.raises(PrunecastError, match=r"1\\udcff\.png is not a readable image") as problem:
        load("folder", root=place)
    assert str(problem.value).encode()


def test_streamed_names_that_are_not_utf8(place):
    class_folders(place, test="val")
    for half in ("train", "val"):
        renamed(place / half / "cat", b"c\xe4t")
    assert len(load("imagenet", root=place, image_size=8).train) == 9


def test_names_in_an_archive_that_are_not_utf8(place, tmp_path):
    class_folders(place)
    renamed(place / "train" / "cat" / "1.png", b"1\xff.png")
    with tarfile.open(tmp_path / "set.tar", "w") as tar:
        tar.add(place, ".")
    assert load("folder", root=tmp_path / "set.tar").digest == load("folder", root=place).digest
