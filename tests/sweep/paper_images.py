"""Small images in the file formats of the paper's datasets: each class is a colour with noise."""

import pickle
import tarfile

import numpy as np
from PIL import Image
from scipy.io import savemat

TRAIN, TEST = 140, 40


def images(count, classes, height, width, seed):
    """Bytes of shape N, H, W, 3, and labels that cycle through the classes."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % classes
    colours = np.random.default_rng(7).integers(40, 216, (classes, 1, 1, 3))
    noise = rng.integers(-40, 40, (count, height, width, 3))
    return (colours[labels] + noise).astype(np.uint8), labels


def cifar10(folder, form):
    """CIFAR-10 as its python batches, unpacked or in the official archive, or as its binary archive."""
    binary = form == "binary archive"
    inner = folder / ("cifar-10-batches-bin" if binary else "cifar-10-batches-py")
    inner.mkdir(parents=True)
    names = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    for number, name in enumerate(names):
        pixels, labels = images(TEST if name == "test_batch" else TRAIN // 5, 10, 32, 32, number)
        planes = pixels.transpose(0, 3, 1, 2).reshape(len(pixels), -1)
        if binary:
            np.column_stack((labels.astype(np.uint8), planes)).tofile(inner / f"{name}.bin")
            continue
        batch = pickle.dumps({b"data": planes, b"labels": labels.tolist()}, protocol=2)
        (inner / name).write_bytes(batch.replace(b"numpy._core.multiarray", b"numpy.core.multiarray"))
    if form != "folder":
        packed = folder / ("cifar-10-binary.tar.gz" if binary else "cifar-10-python.tar.gz")
        with tarfile.open(packed, "w:gz") as archive:
            archive.add(inner, inner.name)
        for file in inner.iterdir():
            file.unlink()
        inner.rmdir()


def svhn(folder):
    """SVHN's two .mat files; the digit 0 has the label 10."""
    for name, count, seed in (("train_32x32.mat", TRAIN, 0), ("test_32x32.mat", TEST, 1)):
        pixels, labels = images(count, 10, 32, 32, seed)
        y = np.where(labels == 0, 10, labels).astype(np.uint8).reshape(-1, 1)
        savemat(folder / name, {"X": pixels.transpose(1, 2, 3, 0), "y": y})


def tinyimagenet(folder, classes=("n01443537", "n01629819", "n02948072")):
    """TinyImageNet's tree, with validation labels in a file of annotations."""
    top = folder / "tiny-imagenet-200"
    pixels, labels = images(TRAIN, len(classes), 64, 64, 0)
    for number, (image, label) in enumerate(zip(pixels, labels, strict=True)):
        _save(top / "train" / classes[label] / "images" / f"{classes[label]}_{number}.JPEG", image)
    pixels, labels = images(TEST, len(classes), 64, 64, 1)
    for number, image in enumerate(pixels):
        _save(top / "val" / "images" / f"val_{number}.JPEG", image)
    lines = [f"val_{number}.JPEG\t{classes[label]}\t0\t0\t63\t63\n" for number, label in enumerate(labels)]
    (top / "val" / "val_annotations.txt").write_text("".join(lines))


def imagenet(folder, classes=("n01440764", "n01443537", "n02099601")):
    """ImageNet's class folders, of images of various sizes."""
    for half, count, seed in (("train", TRAIN, 0), ("val", TEST, 1)):
        pixels, labels = images(count, len(classes), 80, 90, seed)
        for number, (image, label) in enumerate(zip(pixels, labels, strict=True)):
            _save(folder / "imagenet" / half / classes[label] / f"{number}.JPEG", image[: 66 + number % 14])


def _save(file, image):
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(file)
