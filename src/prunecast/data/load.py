"""From the name of a dataset to its two sources on a device."""

from pathlib import Path

import torch

from prunecast.data.dataset import Dataset, chance_error
from prunecast.data.digits import digits
from prunecast.data.halves import Half, Halves
from prunecast.data.memory import MemorySource, byte_statistics, normalisation
from prunecast.errors import PrunecastError

DATASETS = ("digits",)


def load(name: str, *, root: Path | None = None, device: torch.device | str = "cpu") -> Dataset:
    """Return a dataset by name, its bytes and labels on the device."""
    if name not in DATASETS:
        raise PrunecastError(f"unknown dataset {name!r}; choose one of {', '.join(DATASETS)}.")
    return on_device(name, digits(), torch.device(device))


def on_device(name: str, halves: Halves, device: torch.device) -> Dataset:
    """Return a dataset with its bytes on the device, normalised by mean and std of the whole training half."""
    mean, std = (normalisation(part, device) for part in byte_statistics(halves.train.images))

    def source(half: Half) -> MemorySource:
        images = torch.from_numpy(half.images).to(device)
        return MemorySource(images, torch.from_numpy(half.labels).to(device), mean=mean, std=std)

    return Dataset(
        name=name,
        train=source(halves.train),
        test=source(halves.test),
        num_classes=halves.num_classes,
        chance_error=chance_error(torch.from_numpy(halves.test.labels)),
        digest=halves.digest,
    )
