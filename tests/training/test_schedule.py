import pytest
import torch

from prunecast import spec
from prunecast.errors import PrunecastError
from prunecast.training import checkpoint_due, learning_rate, stretches, timeline, warm_up

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


def rates_of(changes, *, beyond=0):
    """The learning rates of 200 steps, and of some after them."""
    recipe = spec.recipe("digits").changed({"epochs": 10, "batch_size": 10, **changes})
    times = timeline(recipe, 200)
    return [learning_rate(recipe, times, step) for step in range(times.total + beyond)]


def torchs_rates(make, steps=201):
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.1)
    schedule, found = make(optimizer), []
    for _ in range(steps):
        found += schedule.get_last_lr()
        optimizer.step()
        schedule.step()
    return found


@pytest.mark.parametrize("warmup", [0, 40])
@pytest.mark.parametrize("final", [0.0, 0.001])
def test_cosine_is_torchs(warmup, final):
    found = rates_of({"schedule": "cosine", "warmup": warmup / 20, "final_learning_rate": final}, beyond=1)
    cosine = torchs_rates(
        lambda own: torch.optim.lr_scheduler.CosineAnnealingLR(own, 200 - warmup, eta_min=final), 201 - warmup
    )
    assert found == pytest.approx([*(0.1 * step / 40 for step in range(warmup)), *cosine], abs=1e-12)


@pytest.mark.parametrize(("warmup", "top"), [(0, 60), (2, 40)])
def test_one_cycle_is_torchs_and_reaches_its_end_at_the_last_step(warmup, top):
    found = rates_of({"schedule": "one-cycle", "warmup": warmup, "final_learning_rate": 4e-4}, beyond=1)
    torchs = torchs_rates(
        lambda own: torch.optim.lr_scheduler.OneCycleLR(
            own, 0.1, total_steps=201, pct_start=(top + 1) / 201, final_div_factor=10, cycle_momentum=False
        ),
        200,
    )
    assert found[:-1] == pytest.approx(torchs, abs=1e-12)
    assert (found[top], found[200]) == (0.1, pytest.approx(4e-4))


@pytest.mark.parametrize("schedule", ["cosine", "one-cycle"])
def test_fine_tuning_goes_on_at_the_final_learning_rate(schedule):
    found = rates_of({"schedule": schedule, "final_learning_rate": 0.002}, beyond=50)
    assert found[200:] == pytest.approx([0.002] * 50)


def triangle(recipe, times, step):
    return recipe.learning_rate * warm_up(times, step) * (1 - step / times.total)


def negative(recipe, times, step):
    return -1.0


def test_a_schedule_by_its_name():
    found = rates_of({"schedule": "test_schedule:triangle", "warmup": 1})
    assert found[10:12] + found[100:101] == pytest.approx([0.1 * 0.5 * 0.95, 0.1 * 0.55 * 0.945, 0.05])
    with pytest.raises(PrunecastError, match=r"the learning rate of step 0 is -1.0; return a number from 0"):
        rates_of({"schedule": "test_schedule:negative"})


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
