"""Plans on a user's images: shares of the examples, the split; `plan` refuses what `run` refuses."""

import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1] / "data"))
from pictures import class_folders, picture
from small import parsed

from prunecast.cli.engine import plan as plan_command
from prunecast.errors import PrunecastError
from prunecast.sweep import overview, run_plan
from prunecast.sweep.proposal import propose

PLAN = """
family = "digits_cnn"
dataset = "photos"
loader = "folder"
root = "photos"
depth = 3
width = 0.5
num_examples = "all"
level_cap = 0
[recipe]
preset = "digits"
epochs = 1
"""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PRUNECAST_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def photos(tmp_path):
    """Thirty images of cats and of dogs, without a split."""
    for number in range(60):
        picture(tmp_path / "photos" / ("cat", "dog")[number % 2] / f"{number}.png", number)
    return tmp_path


def examples(text, folder):
    return [chain.spec.num_examples for chain in parsed(text, folder).chains]


@pytest.mark.parametrize(
    ("given", "numbers"),
    [
        ('"all"', [48]),
        ("0.5", [24]),
        ('["all", "1/2", "1/3", 0.1, 7]', [48, 24, 16, 4, 7]),
        ("1.0", [48]),
    ],
)
def test_shares_of_the_training_examples(photos, given, numbers):
    assert examples(PLAN.replace('"all"', given), photos) == numbers


def test_shares_leave_out_what_is_held_out_and_count_other_data(photos):
    held = PLAN.replace("epochs = 1", "epochs = 1\nvalidation_examples = 8")
    assert examples(held.replace('"all"', "0.5"), photos) == [20]
    digits = 'dataset = "digits"\nnum_examples = ["all", "1/4"]\n'
    rest = 'family = "digits_cnn"\nrecipe = "digits"\ndepth = 3\nwidth = 1\n'
    assert examples(digits + rest, photos) == [600, 150]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ('"some"', 'num_examples is \'some\'; give a whole number, "all", or a share such as 0.5 or "1/2"'),
        ("1.5", "num_examples is 1.5; give a whole number"),
        ('"1/0"', "num_examples is '1/0'; give a whole number"),
        ("true", "num_examples is True; give a whole number"),
        ("0.001", "0.001 of photos (48 training examples) is less than one example; ask for more"),
    ],
)
def test_shares_that_are_none_are_refused(photos, given, message):
    with pytest.raises(PrunecastError) as refused:
        parsed(PLAN.replace('"all"', given), photos)
    assert message in str(refused.value)


def test_the_split_is_part_of_a_chain_and_of_what_plan_prints(photos, monkeypatch):
    usual, other = (parsed(text, photos).chains[0].spec for text in (PLAN, "split_seed = 1\n" + PLAN))
    assert usual.digest != other.digest
    monkeypatch.chdir(photos)
    (photos / "plan.toml").write_text("test_share = 0.25\nsplit_seed = 4\n" + PLAN)
    done = CliRunner().invoke(plan_command, ["plan.toml", "--no-estimate"], catch_exceptions=False)
    said = " ".join(done.output.split())
    assert (
        "photos has no test set, so 25% of every class is used for testing, chosen by file name and split_seed 4: "
        "44 training and 16 test images in 2 classes."
    ) in said
    assert " 44 " in said
    (event,) = run_plan(parsed((photos / "plan.toml").read_text(), photos), photos / "store")
    assert event.record.chance_error == 0.5


def refused_by_both(text, folder, message):
    for refuse in (overview, lambda plan: run_plan(plan, folder / "store")):
        with pytest.raises(PrunecastError) as refused:
            refuse(parsed(text, folder))
        assert message in str(refused.value)


def test_plan_refuses_what_run_refuses(photos):
    numbered = PLAN.replace('"all"', "40")
    refused_by_both(
        numbered.replace("40", "60"), photos, "but photos has 48 training examples; give at most 48"
    )
    refused_by_both(
        numbered.replace('"photos"\ndepth', '"nowhere"\ndepth'), photos, "nowhere, which does not exist"
    )
    refused_by_both(
        numbered.replace("digits_cnn", "vgg").replace("depth = 3", "depth = 11"), photos, "too small"
    )
    picture(photos / "photos" / "dog" / "large.png", 1, 12, 12)
    refused_by_both(numbered, photos, "set image_size to resize all images to one size")
    class_folders(photos / "halves", classes=("cat", "dog"))
    picture(photos / "halves" / "test" / "owl" / "0.png", 1)
    refused_by_both(numbered.replace('"photos"\ndepth', '"halves"\ndepth'), photos, "owl is a class that")


def test_plan_refuses_arrays_of_another_type(photos):
    labels, images = np.arange(50) % 10, np.zeros((50, 8, 8), np.float32)
    parts = {"train_images": images, "train_labels": labels, "test_images": images, "test_labels": labels}
    np.savez(photos / "mine.npz", **parts)
    text = PLAN.replace('"folder"', '"arrays"').replace('root = "photos"', 'root = "mine.npz"')
    refused_by_both(text.replace('"all"', "40"), photos, "it must be uint8 of shape N, H, W")


def test_an_image_size_is_refused_where_images_are_not_scaled(photos):
    known = PLAN.replace('loader = "folder"\nroot = "photos"', "image_size = 16")
    for dataset, size in (("digits", "8x8"), ("cifar10", "32x32")):
        with pytest.raises(
            PrunecastError, match=f"the images of {dataset} are {size} and are not scaled; remove"
        ):
            overview(parsed(known.replace('"photos"', f'"{dataset}"').replace('"all"', "40"), photos))
    digits = parsed(known.replace('"photos"', '"digits"').replace("16", "8"), photos)
    assert overview(digits).chains == 1
    images, labels = np.zeros((50, 8, 8), np.uint8), np.arange(50) % 10
    parts = {"train_images": images, "train_labels": labels, "test_images": images, "test_labels": labels}
    np.savez(photos / "mine.npz", **parts)
    arrays = PLAN.replace('"folder"', '"arrays"').replace('root = "photos"', 'root = "mine.npz"')
    refused_by_both(f"image_size = 16\n{arrays}", photos, "the images of arrays are 8x8 and are not scaled")
    for data in ("digits", str(photos / "mine.npz")):
        with pytest.raises(PrunecastError, match="are 8x8 and are not scaled; remove image_size"):
            propose("digits_cnn", data, image_size=16)


def test_a_share_of_data_in_another_folder_is_known_to_every_command(photos, monkeypatch):
    from prunecast.cli.engine import export, run, status

    elsewhere = photos / "elsewhere"
    elsewhere.mkdir()
    (photos / "photos").rename(elsewhere / "photos")
    (photos / "plan.toml").write_text(PLAN)
    monkeypatch.chdir(photos)
    for command, options in ((run, ["--jobs", "1"]), (status, []), (export, ["-o", "table.csv"])):
        given = ["plan.toml", "--data", str(elsewhere), *options]
        done = CliRunner().invoke(command, given, catch_exceptions=False)
        assert done.exit_code == 0, done.output
    with pytest.raises(PrunecastError, match=r"needs the images of photos, but .*photos does not exist"):
        CliRunner().invoke(status, ["plan.toml"], catch_exceptions=False)
