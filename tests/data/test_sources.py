import threading

import numpy as np
import pytest
import torch

from prunecast.data import batches, chance_error, draw, from_arrays, load, subsample
from prunecast.data.sources import HostSource
from prunecast.errors import PrunecastError


def small(train=30, test=20, shape=(6, 5, 3), classes=4, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "train_images": rng.integers(0, 256, (train, *shape), dtype=np.uint8),
        "train_labels": rng.integers(0, classes, train),
        "test_images": rng.integers(0, 256, (test, *shape), dtype=np.uint8),
        "test_labels": rng.integers(0, classes, test),
    }


def test_digits_are_the_known_set_in_a_fixed_split():
    digits = load("digits")
    assert (len(digits.train), len(digits.test), digits.num_classes) == (600, 1197, 10)
    assert digits.train.image_shape == digits.test.image_shape == (1, 8, 8)
    together = torch.cat((digits.train.labels, digits.test.labels))
    assert torch.bincount(together).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert digits.digest == load("digits").digest
    assert digits.train.labels[:10].tolist() == [2, 8, 2, 6, 6, 7, 1, 9, 8, 5]
    assert digits.chance_error == pytest.approx(1 - 131 / 1197)


def test_a_batch_is_normalised_by_the_training_half():
    data = from_arrays(small())
    everything = data.train.batch(torch.arange(30), None)
    assert everything.dtype == torch.float32
    assert everything.shape == (30, 3, 6, 5)
    torch.testing.assert_close(everything.mean((0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(everything.std((0, 2, 3), correction=0), torch.ones(3))
    arrays = small()
    mean, std = arrays["train_images"].mean((0, 1, 2)), arrays["train_images"].std((0, 1, 2))
    expected = (arrays["test_images"][[7, 3]] - mean) / std
    given = data.test.batch(torch.tensor([7, 3]), None)
    torch.testing.assert_close(given, torch.from_numpy(expected).float().permute(0, 3, 1, 2))


@pytest.mark.parametrize("augmentation", ["none", "flip-shift", "resized-crop"])
def test_batches_do_not_depend_on_their_company(augmentation):
    data = from_arrays(small(shape=(8, 8, 3)))
    draws = draw(augmentation, 30, data.train.image_shape, np.random.default_rng(0))
    order = torch.randperm(30, generator=torch.Generator().manual_seed(0))
    whole = data.train.batch(order, draws)
    alone = torch.cat([data.train.batch(order[i : i + 1], draws and draws[i : i + 1]) for i in range(30)])
    torch.testing.assert_close(whole, alone, rtol=0, atol=1e-6)
    assert whole.is_contiguous(memory_format=torch.channels_last)


def test_a_channel_that_never_varies_is_left_finite():
    arrays = small()
    arrays["train_images"][..., 1] = 9
    assert from_arrays(arrays).train.batch(torch.arange(3), None)[:, 1].abs().max() == 0


def test_fetching_ahead_changes_nothing():
    data = from_arrays(small(shape=(8, 8, 3)))
    draws = draw("flip-shift", 30, (3, 8, 8), np.random.default_rng(0))
    plan = [(torch.arange(start, start + 10), draws[start : start + 10]) for start in (0, 10, 20)]
    made = list(batches(data.train, iter(plan)))
    assert len(made) == 3
    assert all(torch.equal(one, data.train.batch(*two)) for one, two in zip(made, plan, strict=True))


class Watched(HostSource):
    """A source that notes which threads read and which use the device."""

    readers, users = set(), set()

    def read(self, indices, draws):
        self.readers.add(threading.get_ident())
        return super().read(indices, draws)

    def place(self, pixels, draws):
        self.users.add(threading.get_ident())
        return super().place(pixels, draws)


@pytest.mark.parametrize("augmentation", ["none", "flip-shift", "resized-crop"])
def test_bytes_on_the_host_make_the_same_batches_and_one_thread_uses_the_device(augmentation):
    source = from_arrays(small(shape=(8, 8, 3))).train
    host = Watched(source.images, source.labels, mean=source.mean, std=1 / source.scale)
    host.scale = source.scale
    draws = draw(augmentation, 30, source.image_shape, np.random.default_rng(0))
    order = torch.randperm(30, generator=torch.Generator().manual_seed(0))
    rows = [slice(start, start + 4) for start in range(0, 30, 4)]
    plan = [(order[row], draws and draws[row]) for row in rows]
    wanted = [source.batch(*batch) for batch in plan]
    assert all(map(torch.equal, batches(host, plan), wanted))
    assert all(torch.equal(host.batch(*batch), own) for batch, own in zip(plan[:2], wanted[:2], strict=True))
    assert Watched.users == {threading.get_ident()}
    assert len(Watched.readers) > 1


def test_chance_is_the_error_of_the_commonest_class():
    assert chance_error(torch.tensor([0, 1, 1, 1, 2, 2, 3, 3, 3, 3])) == pytest.approx(0.6)


def test_subsamples_are_nested_sets_of_distinct_indices():
    def drawn(n, seed=0):
        return subsample(1000, n, np.random.default_rng(seed))

    assert drawn(1000).tolist() == list(range(1000))
    assert len(set(drawn(300).tolist())) == 300
    assert (np.diff(drawn(300)) > 0).all()
    assert set(drawn(100).tolist()) < set(drawn(300).tolist())
    assert drawn(300).tolist() != drawn(300, seed=1).tolist()
    for wrong in (0, 1001):
        with pytest.raises(PrunecastError, match=f"between 1 and 1000, not {wrong}"):
            drawn(wrong)


def without(arrays, name):
    return {part: values for part, values in arrays.items() if part != name}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (without(small(), "test_labels"), "mine has no array test_labels"),
        (small() | {"train_labels": np.zeros(29, int)}, "train_labels in mine has 29 labels for 30 images"),
        (small() | {"train_labels": np.full(30, -1)}, "has the label -1; labels must be 0 to 3"),
        (small() | {"train_labels": np.zeros(30)}, "labels of type float64; they must be whole numbers"),
        (small() | {"train_images": np.zeros((30, 6, 5, 3))}, "train_images in mine is float64"),
        (small() | {"train_images": np.zeros((30, 3, 6, 5), np.uint8)}, "N, H, W, C with at most 4 channels"),
        (small() | {"train_images": np.zeros((30, 7, 5, 3), np.uint8)}, "images of two shapes"),
    ],
)
def test_wrong_arrays_are_named(arrays, message):
    with pytest.raises(PrunecastError, match=message):
        from_arrays(arrays, name="mine")


def test_the_engine_core_needs_only_torch_and_numpy():
    import subprocess
    import sys

    code = (
        "import sys, prunecast.data, prunecast.families\n"
        "sys.exit(bool({'scipy', 'pandas', 'PIL', 'click', 'rich'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
