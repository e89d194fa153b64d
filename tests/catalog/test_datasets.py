"""Facts about datasets are stored once, and a user adds a dataset in one file for both halves."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from prunecast.catalog import DIGITS, DatasetFacts, dataset_names, datasets, find_dataset, own_dataset
from prunecast.data import DATASETS, chance_error, load
from prunecast.errors import PrunecastError
from prunecast.spec import level_cap
from prunecast.sweep import parse_plan, rows, run_plan
from prunecast.table import read

HERE = Path(__file__).parent
PLAN = """
family = "digits_cnn"
dataset = "stripes"
loader = "stripes:STRIPES"
depth = 3
width = 0.5
num_examples = "all"
level_cap = 1
[recipe]
preset = "digits"
epochs = 2
"""


@pytest.fixture
def stripes(monkeypatch):
    """The module is importable, and what it registers is forgotten afterwards."""
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.setattr(datasets, "_DATASETS", dict(datasets._DATASETS))
    yield "stripes:STRIPES"
    sys.modules.pop("stripes", None)


def test_names_are_found_in_any_spelling():
    assert find_dataset("CIFAR-10") is find_dataset("cifar10") is find_dataset("Cifar_10")
    assert find_dataset("birds") is None
    assert find_dataset("birds", "digits") is DIGITS
    assert find_dataset("digits", "folder") is DIGITS


def test_the_facts_about_the_digits_are_those_of_the_digits():
    data = load("digits")
    assert (len(data.train), len(data.test)) == (DIGITS.train_examples, DIGITS.test_examples)
    assert data.num_classes == DIGITS.num_classes
    assert data.train.image_shape == DIGITS.image_shape
    assert chance_error(data.test.labels) == pytest.approx(DIGITS.chance_error, abs=0.01)


def test_the_engine_reads_every_dataset_with_facts():
    assert set(dataset_names()) <= set(DATASETS)


@pytest.mark.parametrize(
    ("family", "dataset", "cap"),
    [
        ("cifar_resnet", "cifar10", 40),
        ("vgg", "svhn", 37),
        ("densenet", "cifar10", 50),
        ("tinyimagenet_resnet", "tinyimagenet", 50),
        ("imagenet_resnet", "imagenet", 30),
        ("vgg", "imagenet", 30),
        ("own:family", "birds", 40),
    ],
)
def test_level_caps_of_the_paper(family, dataset, cap):
    assert level_cap(family, dataset) == cap


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_classes": 0}, "dataset 'digits': num_classes must be at least 1, not 0"),
        ({"chance_error": 90}, "dataset 'digits': chance_error must be between 0 and 1, not 90"),
    ],
)
def test_impossible_facts_are_refused(change, message):
    with pytest.raises(PrunecastError, match=message):
        dataclasses.replace(DIGITS, **change)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("stripes:__doc__", "dataset 'stripes:__doc__' is str; it must be a DatasetFacts, or a function"),
        ("stripes:nothing", "dataset 'stripes:nothing': the module stripes has no attribute 'nothing'"),
        ("no_such_module:x", "cannot import dataset 'no_such_module:x'.*PYTHONPATH"),
    ],
)
@pytest.mark.usefixtures("stripes")
def test_what_is_no_dataset_is_refused(name, message):
    with pytest.raises(PrunecastError, match=message):
        own_dataset(name)


def test_an_own_dataset_serves_both_halves(stripes, tmp_path):
    """A plan names it; the law half then knows its chance error and its number of classes."""
    plan = parse_plan(PLAN, name="stripes", place="stripes.toml", folder=tmp_path)
    assert plan.chains[0].spec.num_examples == 300
    list(run_plan(plan, tmp_path / "store"))
    made = pd.DataFrame(rows(plan, tmp_path / "store"))
    assert (made["chance_error"] == 0.75).all()
    assert len(made) == 2
    table = read(made.drop(columns="chance_error"))
    assert (table.dataset, table.chance) == ("stripes", 0.75)
    assert isinstance(find_dataset("Stripes"), DatasetFacts)
    assert find_dataset("stripes").num_classes == 4


def test_a_plug_in_of_the_environment_is_known_by_name():
    code = (
        "from prunecast.catalog import find_dataset\n"
        "from prunecast.data import load\n"
        "print(find_dataset('stripes').num_classes, load('stripes').num_classes)"
    )
    path = os.pathsep.join(map(str, (HERE, *sys.path)))
    environment = {**os.environ, "PRUNECAST_PLUGINS": "stripes", "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "4 4\n", done.stderr
    environment["PRUNECAST_PLUGINS"] = "no_such_module"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert "cannot import the plug-in 'no_such_module' of PRUNECAST_PLUGINS" in done.stderr
