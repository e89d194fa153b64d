import pytest

from prunecast import spec
from prunecast.training import checkpoint_due, learning_rate, stretches, timeline

# recipe, changes, n -> batch, steps an epoch, total, rewind, warm-up, drops
LAID_OUT = [
    ("cifar10", {}, 50_000, (128, 390, 62_400, 3_900, 0, (31_200, 46_800))),
    ("cifar10", {}, 781, (128, 6, 960, 60, 0, (480, 720))),
    ("cifar10", {}, 100, (100, 1, 160, 10, 0, (80, 120))),
    ("cifar10", {"epochs": 24}, 50_000, (128, 390, 9_360, 585, 0, (4_680, 7_020))),
    ("cifar10", {"steps": 16_000}, 50_000, (128, 390, 16_000, 1_000, 0, (8_000, 12_000))),
    ("cifar10", {"steps": 16_000}, 781, (128, 6, 16_000, 1_000, 0, (8_000, 12_000))),
    ("imagenet", {}, 1_281_167, (1024, 1251, 112_590, 12_510, 6_255, (37_530, 75_060, 100_080))),
]


@pytest.mark.parametrize(("name", "changes", "num_examples", "expected"), LAID_OUT)
def test_recipe_in_steps(name, changes, num_examples, expected):
    times = timeline(spec.recipe(name).changed(changes), num_examples)
    found = (times.batch, times.epoch, times.total, times.rewind, times.warmup, times.drops)
    assert found == expected


@pytest.mark.parametrize(
    ("step", "rate"),
    [
        (0, 0.0),
        (1, 0.4 / 6_255),
        (3_127, 0.4 * 3_127 / 6_255),
        (6_255, 0.4),
        (37_529, 0.4),
        (37_530, 0.04),
        (75_060, 0.004),
        (100_080, 0.0004),
        (200_000, 0.0004),
    ],
)
def test_learning_rate_of_imagenet(step, rate):
    recipe = spec.recipe("imagenet")
    assert learning_rate(recipe, timeline(recipe, 1_281_167), step) == pytest.approx(rate, rel=1e-12)


@pytest.mark.parametrize("rewind", [0, 0.5, 1, 1.25, 3])
@pytest.mark.parametrize("first", [0, 4, 7, 12, 25])
def test_stretches_cover_every_step_once_wherever_they_begin(rewind, first):
    recipe = spec.recipe("digits").changed({"epochs": 4, "rewind": rewind, "batch_size": 10})
    times = timeline(recipe, 80)
    cut = list(stretches(times, first, times.total))
    assert [step for begin, end in cut for step in range(begin, end)] == list(range(first, times.total))
    ends = {8, 16, 24, 32, times.rewind}
    assert all(end in ends and begin // 8 == (end - 1) // 8 for begin, end in cut)


@pytest.mark.parametrize("interval", [1, 7, 8, 9, 20, 1000])
def test_checkpoints_stand_at_ends_of_epochs_and_no_oftener_than_asked(interval):
    recipe = spec.recipe("digits").changed(
        {"epochs": 40, "rewind": 1.5, "batch_size": 10, "checkpoint_steps": interval}
    )
    times = timeline(recipe, 80)
    due = [
        end for begin, end in stretches(times, 0, times.total) if checkpoint_due(recipe, times, begin, end)
    ]
    assert all(end % times.epoch == 0 for end in due)
    assert len(due) == times.total // max(interval, times.epoch)


def test_there_is_always_something_to_retrain():
    recipe = spec.recipe("digits").changed({"epochs": 1, "rewind": 1})
    times = timeline(recipe, 20)
    assert (times.total, times.rewind) == (1, 0)
