"""`prunecast init` writes a plan that runs unchanged and fits into the time, without questions."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "data"))
from pictures import picture

from prunecast.cli.engine import plan as plan_command
from prunecast.cli.init import init
from prunecast.errors import PrunecastError
from prunecast.sweep import estimation, overview, proposal, read_plan, run, run_plan, usual_jobs
from prunecast.sweep.estimation import TrainingSpeed
from prunecast.sweep.proposal import propose

MODELS = """
from torch import nn


def mlp(depth, width, num_classes, image_shape):
    hidden, inputs, layers = max(2, round(8 * width)), image_shape[0] * image_shape[1] * image_shape[2], [nn.Flatten()]
    for _ in range(depth - 1):
        layers += [nn.Linear(inputs, hidden), nn.ReLU()]
        inputs = hidden
    return nn.Sequential(*layers, nn.Linear(inputs, num_classes))


def even(depth, width: int, num_classes):
    if depth % 4 or width % 4:
        raise ValueError("a multiple of 4, please")
    pooled = nn.Sequential(nn.Conv2d(3, width, 3), nn.BatchNorm2d(width), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(pooled, *[nn.Linear(width, width) for _ in range(depth)], nn.Linear(width, num_classes))


def shallow(num_classes, image_shape, depth=1, width=1.0):
    return mlp(1 + depth, width, num_classes, image_shape)


def whole(num_classes):
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, num_classes))


def same(width, num_classes):
    return whole(num_classes)


def flat(width, num_classes):
    channels = max(2, round(8 * width))
    pooled = nn.Sequential(nn.Conv2d(3, channels, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(pooled, nn.Linear(channels, num_classes))


def large(depth, width, num_classes):
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 30 * 30, num_classes))


def broken(depth, width, num_classes):
    raise RuntimeError("out of order")
"""


@pytest.fixture(autouse=True)
def desk(tmp_path, monkeypatch):
    """A folder with a model file and images of several sizes, without a split."""
    monkeypatch.setenv("PRUNECAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_models", raising=False)
    (tmp_path / "my_models.py").write_text(MODELS)
    for number in range(60):
        picture(
            tmp_path / "photos" / ("cat", "dog")[number % 2] / f"{number}.png", number, 30 + number % 3, 30
        )
    return tmp_path


@pytest.fixture
def timed(monkeypatch):
    """Set the seconds of a step; an image takes a hundredth of that."""

    def set_to(seconds, cores=2, speedup=lambda threads: 1.0):
        def time_training(chain, device):
            spec, widths = chain.spec, (chain.spec.width,)
            return TrainingSpeed(
                family=spec.family,
                depth=spec.depth,
                widths=widths,
                batch=8,
                mode="alone",
                step_seconds=seconds * spec.depth / speedup(spec.threads),
                image_seconds=seconds / 100,
            )

        for module in (proposal, estimation):
            monkeypatch.setattr(module, "time_training", time_training)
            monkeypatch.setattr(module, "cores", lambda: cores)
        monkeypatch.setattr(run, "cores", lambda: cores)

    return set_to


def written(*arguments):
    done = CliRunner().invoke(init, [*map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_plan_from_a_model_function_and_a_folder_runs_as_it_is(desk):
    said = written("my_models:mlp", "--data", "photos", "--hours", 1, "--jobs", 2)
    text = (desk / "plan.toml").read_text()
    assert 'root = "photos"' in text
    assert "test_share = 0.2" in text
    assert "image_size = 32" in text
    assert "prunecast run plan.toml -o table.csv" in said
    assert 'initial_weights = "own"                 # those that the function makes' in text
    plan = read_plan(desk / "plan.toml")
    seen = overview(plan)
    assert {chain.spec.num_examples for chain in plan.chains} == {48}
    assert seen.chains >= 1
    assert plan.chains[0].spec.recipe.optimizer == "adamw"
    assert {chain.spec.recipe.initial_weights for chain in plan.chains} == {"own"}
    events = run_plan(plan, desk / "store")
    assert next(events).record.level == 0
    events.close()


def test_little_time_is_not_spent_on_a_deeper_network(timed):
    """Depth 1 has no half, so depth 2 replaced the shallower network."""
    timed(1e-3)
    found = [propose("my_models:shallow", "photos", hours=hours, jobs=2) for hours in (0.0025, 3)]
    assert [own.depths for own in found] == [(1,), (1, 2)]


def test_a_plan_of_one_size_says_so(timed):
    timed(1e-3)
    note = "There is time for one size only"
    assert note in written("my_models:shallow", "--data", "photos", "--hours", 0.0025)
    assert note not in written("my_models:mlp", "--data", "photos", "--hours", 3, "-o", "large.toml")
    assert note not in written("my_models:whole", "--data", "photos", "--hours", 3, "-o", "whole.toml")


def test_a_function_that_builds_one_size_is_named(timed):
    """More time would not add sizes to such a plan."""
    timed(1e-3)
    said = written("my_models:same", "--data", "photos", "--hours", 3)
    assert "With every width that was tried, my_models:same builds networks of the same size or none" in said
    assert "more --hours" not in said


def test_more_time_is_a_richer_plan_and_every_plan_fits(timed):
    timed(1e-3)
    steps = []
    found = [
        propose("my_models:mlp", "photos", hours=hours, jobs=2, on_timing=lambda *step: steps.append(step))
        for hours in (0.02, 0.1, 0.5, 3)
    ]
    assert steps == 4 * [(number, 9) for number in range(1, 10)]
    sizes = [len(own.depths) * len(own.widths) * own.replicates for own in found]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[1] < sizes[-1] == 27
    assert found[-1].depths == (3, 6, 12)
    assert found[-1].widths == (0.25, 0.5, 1)
    for own, hours in zip(found, (0.02, 0.1, 0.5, 3), strict=True):
        assert own.seconds <= 0.9 * 3600 * hours


def test_depths_and_widths_are_found_by_trying(timed):
    timed(1e-4)
    found = propose("my_models:even", "photos", hours=24, jobs=2)
    assert found.depths == (4, 8, 16)
    assert found.widths == (8, 16, 32)
    assert found.recipe.optimizer == "sgd"


def test_networks_of_one_size_have_a_plan_of_density_alone(desk, timed):
    timed(1e-4)
    said = written("my_models:whole", "--data", "photos", "-o", "one.toml")
    assert (
        "my_models:whole does not take depth or width, so the plan cannot compare networks of different sizes; give "
        "the function arguments depth and width if you want"
    ) in said
    assert "depth = 1   " in (desk / "one.toml").read_text()
    assert {(own.depth, own.width) for own in overview(read_plan(desk / "one.toml")).networks} == {(1, 1)}


def test_one_network_trains_with_the_threads_that_pay(desk, timed):
    timed(1e-4, cores=8, speedup=lambda threads: min(threads, 4) ** 0.8)
    said = written("my_models:whole", "--data", "photos", "-o", "one.toml", "--hours", 0.01, "--json")
    found, text = json.loads(said), (desk / "one.toml").read_text()
    assert (found["threads"], found["jobs"], found["replicates"]) == (2, 3, 3)
    assert "threads = 2   " in text
    chains = read_plan(desk / "one.toml").chains
    assert {chain.spec.threads for chain in chains} == {2}
    assert usual_jobs("cpu", chains) == 4
    written("my_models:whole", "--data", "photos", "-o", "alone.toml", "--hours", 0.01, "--jobs", 1)
    chains = read_plan(desk / "alone.toml").chains
    assert {chain.spec.threads for chain in chains} == {4}
    assert usual_jobs("cpu", chains) == 2


def test_many_chains_have_one_thread_each(desk, timed):
    timed(1e-4, cores=2, speedup=lambda threads: threads**0.8)
    written("my_models:mlp", "--data", "photos", "-o", "many.toml", "--hours", 1)
    assert "threads" not in (desk / "many.toml").read_text()
    chains = read_plan(desk / "many.toml").chains
    assert (len(chains), {chain.spec.threads for chain in chains}) == (27, {1})
    assert usual_jobs("cpu", chains) == 2


def test_a_plan_with_idle_cores_says_how_many_threads_pay(desk, timed):
    timed(1e-4)
    written("my_models:whole", "--data", "photos", "-o", "one.toml", "--hours", 0.01)
    plan = read_plan(desk / "one.toml")
    timed(1e-4, cores=16, speedup=lambda threads: threads**0.5)
    found = estimation.more_threads(overview(plan).plan, 3)
    assert (found.count, found.speedup) == (4, pytest.approx(2))
    shown = CliRunner().invoke(plan_command, ["one.toml"], catch_exceptions=False)
    assert "With `threads = 4` in the plan, the largest network trains 2.0 times as fast" in " ".join(
        shown.output.split()
    )
    timed(1e-4, cores=16)
    assert estimation.more_threads(overview(plan).plan, 3) is None
    timed(1e-4, cores=4, speedup=lambda threads: threads**0.5)
    assert estimation.more_threads(overview(plan).plan, 3) is None


def test_without_depth_widths_are_still_compared(desk, timed):
    timed(1e-4)
    said = written("my_models:flat", "--data", "photos", "-o", "flat.toml")
    assert (
        "my_models:flat does not take depth, so the plan cannot compare depths; give the function an arg"
        in said
    )
    text = (desk / "flat.toml").read_text()
    assert "# one depth, because the function does not take depth" in text
    assert {chain.spec.width for chain in read_plan(desk / "flat.toml").chains} == {0.25, 0.5, 1}


@pytest.mark.parametrize("family", ["vit", "cifar_resnet"])
def test_built_in_families_and_archives(desk, timed, family):
    import shutil

    timed(1e-4)
    shutil.make_archive("zipped", "zip", desk, "photos")
    written(family, "--data", "zipped.zip", "-o", "plan.toml", "--hours", 10)
    plan = read_plan(desk / "plan.toml")
    assert {chain.spec.dataset for chain in plan.chains} == {"zipped"}
    found = {"vit": ("vit_patch4", {3, 6, 12}), "cifar_resnet": ("cifar_resnet", {8, 14})}[family]
    assert plan.chains[0].spec.family == found[0]
    assert {chain.spec.depth for chain in plan.chains} == found[1]
    assert "initial_weights" not in (desk / "plan.toml").read_text()


def test_built_in_data(desk, timed):
    timed(1e-5)
    written("my_models:mlp", "--data", "digits", "-o", "d.toml")
    assert 'dataset = "digits"' in (desk / "d.toml").read_text()
    assert {chain.spec.num_examples for chain in read_plan(desk / "d.toml").chains} == {600}


def test_images_are_brought_to_a_size_that_the_network_takes(timed):
    timed(1e-5)
    assert propose("my_models:large", "photos").data.image_size == 32


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("my_models.py:mlp", "photos"),
            "is a path; give a module and a function instead, such as my_models:mlp",
        ),
        (("my_models", "photos"), "my_models is not a family; give your own function as module:function"),
        (("my_models:mlp", "nothing"), "there is no nothing; give a folder or an archive of images"),
        (
            ("my_models:broken", "photos"),
            "cannot be built at depth 6 and width 1: RuntimeError: out of order",
        ),
        (
            ("my_models:large", "photos", "--image-size", 20),
            "takes 3,600 features, but gets 1,296 from images of",
        ),
        (("my_models:mlp", "photos", "--hours", "0.0001"), "the smallest plan for my_models:mlp takes up to"),
        (("my_models:mlp", "cifar10"), "needs CIFAR-10, but no folder with datasets is set"),
        (("my_models:mlp", "photos", "-o", "my_models.py"), "my_models.py exists already; remove it"),
    ],
)
def test_what_cannot_be_planned_is_one_sentence(timed, monkeypatch, arguments, message):
    timed(1e-3)
    monkeypatch.delenv("PRUNECAST_DATA", raising=False)
    family, data, *rest = arguments
    with pytest.raises(PrunecastError) as refused:
        CliRunner().invoke(init, [family, "--data", data, *map(str, rest)], catch_exceptions=False)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["photos\nlevel_cap = 99", "photos\x7f", "photos\udce9"])
def test_names_that_no_plan_can_have_are_refused(desk, timed, name):
    timed(1e-4)
    (desk / "photos").rename(desk / name)
    with pytest.raises(PrunecastError, match="cannot be written into a plan; rename the data"):
        CliRunner().invoke(init, ["my_models:mlp", "--data", name], catch_exceptions=False)
    assert not (desk / "plan.toml").exists()


def test_names_with_quotes_and_letters_of_all_languages_are_kept(desk, timed):
    timed(1e-4)
    (desk / "photos").rename(desk / 'Vögel "neu"')
    written("my_models:mlp", "--data", 'Vögel "neu"')
    assert read_plan(desk / "plan.toml").chains[0].spec.dataset == 'Vögel "neu"'
