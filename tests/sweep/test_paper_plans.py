"""The plans of the paper's eight pairs have the dimensions of its Table 1 and appendix B, and smaller scales."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from prunecast.cli import cli
from prunecast.errors import PrunecastError
from prunecast.spec import recipe
from prunecast.sweep import parse_plan, read_plan, run_plan, shipped_plans
from prunecast.sweep.estimation import estimate, timed_images
from prunecast.sweep.overview import overview
from prunecast.sweep.plan import scales

DEPTHS = (8, 14, 20, 26, 50, 98)
BY_64 = (1, 2, 4, 8, 16, 32, 64)


def widths(first, last):
    return tuple(2.0**power for power in range(first, last + 1))


# pair: family, depths, widths, N, divisors of N, level cap, replicates, recipe
TABLE_1 = {
    "cifar10-resnet": ("cifar_resnet", DEPTHS, widths(-4, 2), 50_000, BY_64, 40, 3, "cifar10"),
    "svhn-resnet": ("cifar_resnet", DEPTHS, widths(-4, 2), 73_257, BY_64, 40, 3, "svhn"),
    "cifar10-vgg": ("vgg", (16,), widths(-4, 0), 50_000, (1,), 37, 3, "cifar10"),
    "svhn-vgg": ("vgg", (16,), widths(-4, 0), 73_257, (1,), 37, 3, "svhn"),
    "cifar10-densenet": ("densenet", (121,), widths(-4, 1), 50_000, (1,), 50, 3, "cifar10-densenet"),
    "svhn-densenet": ("densenet", (121,), widths(-4, 1), 73_257, (1,), 50, 3, "svhn-densenet"),
    "tinyimagenet-resnet18": (
        *("tinyimagenet_resnet", (18,), widths(-6, 0), 100_000, (1,), 50, 3, "tinyimagenet"),
    ),
    "imagenet-resnet50": (
        *("imagenet_resnet", (50,), widths(-4, 0), 1_281_167, (1, 2, 4), 30, 1, "imagenet"),
    ),
}


@pytest.mark.parametrize("name", TABLE_1)
def test_a_pair_has_the_dimensions_of_the_paper(name):
    family, depths, wide, total, divisors, cap, replicates, preset = TABLE_1[name]
    seen = overview(read_plan(name))
    assert seen.axes["family"] == [family]
    assert seen.axes["dataset"] == [name.split("-")[0]]
    assert tuple(seen.axes["depth"]) == depths
    assert tuple(seen.axes["width"]) == wide
    assert seen.axes["num_examples"] == [total // divisor for divisor in divisors]
    assert seen.axes["replicate"] == list(range(replicates))
    assert seen.level_caps == (cap,)
    assert seen.chains == len(depths) * len(wide) * len(divisors) * replicates
    assert seen.selecting == (seen.chains if replicates > 1 else 0)
    assert {chain.spec.recipe for chain in read_plan(name).chains} == {recipe(preset)}
    assert recipe(preset).rewind == 10


@pytest.mark.parametrize("name", TABLE_1)
def test_scales_grow_from_a_smoke_test_to_the_whole_grid(name):
    assert scales(shipped_plans()[name]) == ("smoke", "small", "medium", "full")
    seen = [overview(read_plan(name, scale=scale)) for scale in scales(shipped_plans()[name])]
    assert [own.name for own in seen] == [f"{name}-smoke", f"{name}-small", f"{name}-medium", name]
    epochs = [own.epochs for own in seen]
    assert epochs == sorted(epochs)
    assert seen[0].training_runs == 6
    assert {own.axes["family"][0] for own in seen} == {TABLE_1[name][0]}
    for own in seen:
        assert set(own.axes["depth"]) <= set(TABLE_1[name][1])
        assert set(own.axes["width"]) <= set(TABLE_1[name][2])


BASE = """
family = "digits_cnn"
dataset = "digits"
recipe = "digits"
depth = [3, 4]
width = 1
num_examples = 100
[scale.one]
depth = 3
[[scale.two.grid]]
depth = 5
[[scale.two.grid]]
width = 2
"""


def parsed(text, **how):
    return parse_plan(text, name="p", place="p.toml", folder=Path("here"), **how)


@pytest.mark.parametrize(
    ("scale", "networks"),
    [("full", [(3, 1), (4, 1)]), ("one", [(3, 1)]), ("two", [(5, 1), (3, 2), (4, 2)])],
)
def test_a_scale_overrides_the_file_and_its_grids_override_it(scale, networks):
    plan = parsed(BASE, scale=scale)
    assert [(chain.spec.depth, chain.spec.width) for chain in plan.chains] == networks


@pytest.mark.parametrize(
    ("text", "scale", "words"),
    [
        (BASE, "huge", "p.toml has no scale 'huge'; choose one of one, two, full."),
        (BASE + "[scale.three]\nwidths = 1", "full", "[scale.three] has the unknown key 'widths'"),
        (BASE + "[scale.full]\nwidth = 1", "full", "[scale.full] is the file as it is"),
        (BASE.split("[scale")[0] + "scale = 3", "full", "write a scale as [scale.NAME]"),
        (BASE.split("[scale")[0] + "[scale]\nwidth = 3", "full", "write a scale as [scale.NAME]"),
    ],
)
def test_mistakes_in_scales_are_named(text, scale, words):
    with pytest.raises(PrunecastError) as caught:
        parsed(text, scale=scale)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cifar10-vgg", "needs CIFAR-10, {}; put cifar-10-python.tar.gz from https://www.cs.toronto.edu"),
        ("svhn-vgg", "needs SVHN, {}; put train_32x32.mat and test_32x32.mat from http://ufldl"),
        ("tinyimagenet-resnet18", "needs TinyImageNet, {}; put tiny-imagenet-200.zip from http://cs231n"),
        ("imagenet-resnet50", "needs ImageNet, {}; put ILSVRC2012 from https://image-net.org"),
    ],
)
def test_missing_data_says_what_to_fetch_and_where_to_put_it(name, words, tmp_path, monkeypatch):
    monkeypatch.delenv("PRUNECAST_DATA", raising=False)
    for data, where in (
        (None, "but no folder with datasets is set"),
        (tmp_path, f"which is not in {tmp_path}"),
    ):
        with pytest.raises(PrunecastError) as caught:
            next(run_plan(read_plan(name, scale="smoke", data=data), tmp_path / "store"))
        message = str(caught.value)
        assert words.format(where) in message
        assert message.endswith("with --data or PRUNECAST_DATA.")
        assert message.count(". ") == 0


def test_a_root_is_looked_for_beside_the_plan_then_in_the_folder_of_datasets(tmp_path):
    text = BASE.replace('dataset = "digits"', 'dataset = "birds"\nloader = "folder"\nroot = "birds"')
    plan, data = tmp_path / "plans" / "birds.toml", tmp_path / "data"
    plan.parent.mkdir()
    plan.write_text(text)
    assert read_plan(plan, data=data).chains[0].root == plan.parent / "birds"
    (data / "birds").mkdir(parents=True)
    assert read_plan(plan, data=data).chains[0].root == data / "birds"
    (plan.parent / "birds").mkdir()
    assert read_plan(plan, data=data).chains[0].root == plan.parent / "birds"


def test_a_large_network_is_timed_on_part_of_its_batch():
    plan = read_plan("cifar10-resnet")
    by_size = {(chain.spec.depth, chain.spec.width): chain.spec for chain in plan.chains}
    assert timed_images(by_size[8, 0.0625], 128, "cpu") == 128
    assert timed_images(by_size[98, 4], 128, "cpu") == 2
    assert timed_images(by_size[98, 4], 128, "cuda") == 128


@pytest.mark.slow
def test_the_full_grid_is_estimated_here():
    measured = estimate(read_plan("tinyimagenet-resnet18"))
    assert [one.widths for one in measured.networks] == [(2.0**-6,), (2.0**-4,), (2.0**-2,), (1,)]
    assert all(one.batch == 1024 for one in measured.networks)
    smoke = estimate(read_plan("tinyimagenet-resnet18", scale="smoke"))
    assert measured.alone.seconds > smoke.alone.seconds


def test_the_command_line_shows_a_scale():
    output = CliRunner().invoke(cli, ["plan", "cifar10-resnet", "--scale", "small", "--no-estimate"]).output
    assert "cifar10-resnet-small: 36 chains, at most 1,476 training runs (level cap 40)" in output
    assert "33,260 network-epochs" in output


@pytest.mark.parametrize("name", TABLE_1)
def test_the_page_says_what_a_scale_costs(name):
    page = (Path(__file__).parents[2] / "docs" / "reference" / "plans.md").read_text(encoding="utf-8")
    (line,) = (line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
    told = line.strip("| ").split(" | ")[2:]
    seen = [overview(read_plan(name, scale=scale)) for scale in ("small", "medium", "full")]
    assert told == [f"{own.chains:,}, {own.training_runs:,}, {own.epochs / 1000:,.1f}" for own in seen]
