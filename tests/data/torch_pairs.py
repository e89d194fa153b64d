"""Datasets of PyTorch, as functions that plans and tests name `torch_pairs:...`."""

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset, IterableDataset


class Items(Dataset):
    """Items by a function of their number."""

    classes = ("even", "odd")

    def __init__(self, item, count):
        self.item, self.count = item, count

    def __len__(self):
        return self.count

    def __getitem__(self, number):
        return self.item(number)


def pixels(number, height=8, width=8):
    return np.random.default_rng(number).integers(0, 256, (height, width, 3), dtype=np.uint8)


FORMS = {
    "pil": lambda number: (Image.fromarray(pixels(number)), number % 2),
    "array": lambda number: (pixels(number), np.int64(number % 2)),
    "bytes": lambda number: (torch.from_numpy(pixels(number)).permute(2, 0, 1), torch.tensor(number % 2)),
    "floats": lambda number: (torch.from_numpy(pixels(number)).permute(2, 0, 1) / 255, number % 2),
}


def pil():
    return Items(FORMS["pil"], 40), Items(FORMS["pil"], 10)


def array():
    return Items(FORMS["array"], 40), Items(FORMS["array"], 10)


def bytes_():
    return Items(FORMS["bytes"], 40), Items(FORMS["bytes"], 10)


def floats(root):
    return Items(FORMS["floats"], 40), Items(FORMS["floats"], 10)


def deep():
    return _both(lambda number: (Image.fromarray(pixels(number)[..., 0].astype(np.uint16) * 200), number % 2))


def _both(item, count=10):
    return Items(item, count), Items(item, count)


def one():
    return Items(FORMS["pil"], 10)


def stream():
    class Endless(IterableDataset):
        def __iter__(self):
            return iter(())

    return Endless(), Endless()


def single():
    return _both(lambda number: Image.fromarray(pixels(number)))


def boxes():
    return _both(lambda number: (pixels(number), {"boxes": []}))


def regression():
    return _both(lambda number: (pixels(number), number / 2))


def normalised():
    return _both(lambda number: (torch.from_numpy(pixels(number)).permute(2, 0, 1) / 64 - 1, number % 2))


def augmented():
    return _both(lambda number: (torch.rand(3, 8, 8), number % 2))


def sizes():
    return _both(lambda number: (pixels(number, 8 + number), number % 2))


def text():
    return _both(lambda number: ("a sentence", number % 2))


def unseen():
    return Items(lambda number: (pixels(number), 0), 10), Items(FORMS["array"], 10)


def broken():
    raise OSError("the disk is on fire")
