"""CIFAR, SVHN and arrays in small files of their real formats."""

import pickle
import tarfile

import numpy as np
import pytest
import torch
from scipy.io import savemat

from prunecast.data import load
from prunecast.errors import PrunecastError

PER_FILE = 4


def planes(seed):
    return np.random.default_rng(seed).integers(0, 256, (PER_FILE, 3072), dtype=np.uint8)


def labels(seed, classes):
    return np.random.default_rng(seed + 99).integers(0, classes, PER_FILE).tolist()


def python2_pickle(batch):
    """Write as the official files are: protocol 2, numpy's old module name, byte strings as keys."""
    return pickle.dumps(batch, protocol=2).replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def write_cifar10_python(place):
    folder = place / "cifar-10-batches-py"
    folder.mkdir()
    for number, name in enumerate([*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]):
        batch = {b"data": planes(number), b"labels": labels(number, 10), b"filenames": [b"x.png"] * PER_FILE}
        (folder / name).write_bytes(python2_pickle(batch))
    return folder


def write_cifar10_binary(place):
    folder = place / "cifar-10-batches-bin"
    folder.mkdir()
    for number, name in enumerate([*(f"data_batch_{n}.bin" for n in range(1, 6)), "test_batch.bin"]):
        np.column_stack((np.array(labels(number, 10), np.uint8), planes(number))).tofile(folder / name)
    return folder


def write_cifar100_python(place):
    folder = place / "cifar-100-python"
    folder.mkdir()
    for number, name in enumerate(["train", "test"]):
        batch = {"data": planes(number), "fine_labels": labels(number, 100), "coarse_labels": [0] * PER_FILE}
        (folder / name).write_bytes(python2_pickle(batch))
    return folder


def write_cifar100_binary(place):
    folder = place / "cifar-100-binary"
    folder.mkdir()
    for number, name in enumerate(["train.bin", "test.bin"]):
        fine = np.array(labels(number, 100), np.uint8)
        np.column_stack((np.zeros_like(fine), fine, planes(number))).tofile(folder / name)
    return folder


def bytes_of(source):
    """Undo the normalisation."""
    pixels = source.batch(torch.arange(len(source)), None).permute(0, 2, 3, 1)
    return (pixels / source.scale + source.mean).round().to(torch.uint8).numpy()


CIFAR = [
    ("cifar10", write_cifar10_python, "cifar-10-python.tar.gz", 5, 10),
    ("cifar10", write_cifar10_binary, "cifar-10-binary.tar.gz", 5, 10),
    ("cifar100", write_cifar100_python, "cifar-100-python.tar.gz", 1, 100),
    ("cifar100", write_cifar100_binary, "cifar-100-binary.tar.gz", 1, 100),
]


@pytest.mark.parametrize(("name", "write", "archive", "files", "classes"), CIFAR)
@pytest.mark.parametrize("form", ["folder", "parent", "archive", "beside archive"])
def test_cifar_in_all_its_forms(place, name, write, archive, files, classes, form):
    folder = write(place)
    roots = {"folder": folder, "parent": place}
    if "archive" in form:
        target = place / "downloads"
        target.mkdir()
        with tarfile.open(target / archive, "w:gz") as tar:
            tar.add(folder, folder.name)
        roots |= {"archive": target / archive, "beside archive": target}
    data = load(name, root=roots[form])
    expected = np.concatenate([planes(n) for n in range(files)]).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    assert np.array_equal(bytes_of(data.train), expected)
    assert data.train.labels.tolist() == [label for n in range(files) for label in labels(n, classes)]
    assert data.test.labels.tolist() == labels(files, classes)
    assert (data.num_classes, data.train.image_shape) == (classes, (3, 32, 32))


class Evil:
    def __reduce__(self):
        import os

        return os.system, ("exit 1",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pickle.dumps({b"data": Evil(), b"labels": []}), "system is not allowed"),
        (pickle.dumps({b"data": planes(0)})[:-50], "not a readable dataset pickle"),
        (b"", "not a readable dataset pickle"),
        (pickle.dumps([1, 2]), "holds no dictionary"),
        (pickle.dumps({b"data": [1, 2], b"labels": [1, 2]}), "no `data` with 3072 bytes"),
        (python2_pickle({b"data": planes(0)}), "has no `labels`"),
        (python2_pickle({b"data": planes(0), b"labels": [1, 2]}), "has 2 labels for 4 images"),
        (
            python2_pickle({b"data": planes(0), b"labels": [1, 2, 3, 10]}),
            "has the label 10; labels must be 0 to 9",
        ),
    ],
)
def test_wrong_cifar_pickles_are_named_and_never_run(place, content, message):
    folder = write_cifar10_python(place)
    (folder / "data_batch_3").write_bytes(content)
    with pytest.raises(PrunecastError, match=f"data_batch_3 .*{message}"):
        load("cifar10", root=place)


@pytest.mark.parametrize("module", ["builtins", "numpy", "posix", "codecs", "numpy._core.multiarray"])
def test_the_unpickler_admits_no_other_function(tmp_path, module):
    from prunecast.data.pickles import unpickle

    file = tmp_path / "batch"
    file.write_bytes(b"c" + module.encode() + b"\nload\n.")
    with file.open("rb") as opened, pytest.raises(PrunecastError, match="load is not allowed"):
        unpickle(opened, file)


def test_the_unpickler_reads_bytes_of_old_protocols_and_no_other_encoding(tmp_path):
    from prunecast.data.pickles import unpickle

    file = tmp_path / "batch"
    file.write_bytes(pickle.dumps({"a": b"\xff\x00", "b": (1, 2.5, None)}, protocol=2))
    with file.open("rb") as opened:
        assert unpickle(opened, file) == {"a": b"\xff\x00", "b": (1, 2.5, None)}
    file.write_bytes(b"c_codecs\nencode\n(X\x01\x00\x00\x00aX\x05\x00\x00\x00rot13tR.")
    with file.open("rb") as opened, pytest.raises(PrunecastError, match="encoding 'rot13' is not allowed"):
        unpickle(opened, file)


def test_missing_and_cut_cifar_files_are_named(place):
    folder = write_cifar10_binary(place)
    (folder / "data_batch_2.bin").write_bytes(b"\0" * 3072)
    with pytest.raises(PrunecastError, match=r"data_batch_2\.bin is truncated"):
        load("cifar10", root=place)
    (folder / "data_batch_4.bin").unlink()
    with pytest.raises(PrunecastError, match=r"data_batch_4\.bin is missing"):
        load("cifar10", root=place)
    with pytest.raises(PrunecastError, match="does not hold CIFAR-100"):
        load("cifar100", root=place)


def write_svhn(place):
    arrays = {}
    for number, part in enumerate(("train", "test")):
        x = np.random.default_rng(number).integers(0, 256, (32, 32, 3, 12), dtype=np.uint8)
        y = np.arange(12, dtype=np.uint8)[:, None] % 10 + 1
        savemat(place / f"{part}_32x32.mat", {"X": x, "y": y})
        arrays[part] = x
    return arrays


def test_svhn(place):
    arrays = write_svhn(place)
    data = load("svhn", root=place)
    assert np.array_equal(bytes_of(data.train), arrays["train"].transpose(3, 0, 1, 2))
    assert data.test.labels.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2]
    assert data.num_classes == 10


def test_wrong_svhn_files_are_named(place):
    write_svhn(place)
    savemat(place / "test_32x32.mat", {"X": np.zeros((32, 32, 3, 5), np.uint8), "y": np.ones((4, 1))})
    with pytest.raises(PrunecastError, match=r"test_32x32\.mat has 4 labels for 5 images"):
        load("svhn", root=place)
    (place / "test_32x32.mat").write_bytes(b"nothing")
    with pytest.raises(PrunecastError, match=r"test_32x32\.mat is not a readable SVHN file"):
        load("svhn", root=place)
    (place / "test_32x32.mat").unlink()
    with pytest.raises(PrunecastError, match=r"test_32x32\.mat is missing"):
        load("svhn", root=place)


def test_svhn_says_that_scipy_is_missing(place, monkeypatch):
    import sys

    write_svhn(place)
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(PrunecastError, match=r"train_32x32\.mat needs scipy"):
        load("svhn", root=place)


@pytest.mark.parametrize("form", ["npz", "folder"])
def test_arrays_from_files(place, form):
    rng = np.random.default_rng(0)
    parts = {
        "train_images": rng.integers(0, 256, (6, 5, 4), dtype=np.uint8),
        "train_labels": np.arange(6) % 3,
    }
    parts |= {"test_images": rng.integers(0, 256, (3, 5, 4), dtype=np.uint8), "test_labels": np.arange(3)}
    root = place
    if form == "npz":
        root = place / "mine.npz"
        np.savez_compressed(root, **parts)
    for part, values in parts.items():
        np.save(place / f"{part}.npy", values)
    data = load("arrays", root=root)
    assert np.array_equal(bytes_of(data.train)[..., 0], parts["train_images"])
    assert (data.num_classes, data.test.image_shape) == (3, (1, 5, 4))


def test_array_files_that_hold_objects_are_not_unpickled(place):
    file = place / "mine.npz"
    np.savez(file, train_images=np.array([{}], dtype=object))
    with pytest.raises(PrunecastError, match=r"mine\.npz cannot be read as plain arrays"):
        load("arrays", root=file)


@pytest.mark.parametrize(
    ("name", "root", "message"),
    [
        ("mnist", None, "unknown dataset 'mnist'; choose one of digits, cifar10"),
        ("cifar10", None, "the dataset cifar10 needs a root"),
        ("svhn", "nowhere", "nowhere does not exist, but the dataset svhn"),
        ("folder", "note.txt", r"note\.txt is neither a folder nor an archive"),
        ("imagenet", "note.txt", r"note\.txt is not a folder"),
    ],
)
def test_wrong_names_and_roots(place, name, root, message):
    (place / "note.txt").write_text("hello")
    with pytest.raises(PrunecastError, match=message):
        load(name, root=None if root is None else place / root)
