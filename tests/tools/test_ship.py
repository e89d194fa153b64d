"""A store becomes a table with its provenance by one command."""

import csv
import json
from pathlib import Path

import pytest
from plan_words import recipe_words
from ship import main

import prunecast.table
from prunecast.spec import Recipe
from prunecast.sweep import read_plan, rows, run_plan

PLAN = """
family = "digits_cnn"
dataset = "digits"
recipe = {preset = "digits", epochs = 1, name = "brief"}
depth = 3
num_examples = 64
level_cap = 2
"""
ONE = PLAN + "width = [0.5, 1]\n"
TWO = PLAN + 'width = [1, 2]\nmethod = ["imp", "random"]\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("ship")
    for name, text in (("one", ONE), ("two", TWO)):
        (place / f"{name}.toml").write_text(text)
        for _ in run_plan(read_plan(place / f"{name}.toml"), place / "store"):
            pass
    return place


def shipped(folder, name, *more):
    plans = [str(folder / "one.toml"), str(folder / "two.toml")]
    return main([name, *plans, "--store", str(folder / "store"), "--into", str(folder), *more])


def test_chains_of_several_plans_are_one_table(folder, capsys):
    assert shipped(folder, "both", "--method", "imp", "--caution", "Brief.", "--title", "Three networks") == 0
    assert "9 rows of 3 chains" in capsys.readouterr().out
    table = prunecast.table.read(folder / "both.csv")
    page = json.loads((folder / "both.json").read_text())
    assert sorted(table.frame["width"].unique()) == [0.5, 1, 2]
    assert (page["rows"], page["chains"], page["configurations"], page["replicates"]) == (9, 3, 3, 1)
    assert (page["title"], page["caution"], page["device"]) == ("Three networks", "Brief.", "cpu")
    assert page["plan"] == "one, two"
    assert page["seconds"] == pytest.approx(table.frame["seconds"].sum(), abs=0.2)
    assert page["family"] == "digits_cnn: depths 3; widths 0.5, 1, 2; examples 64"
    for column in ("family", "dataset", "method", "recipe"):
        assert page[column].startswith(f"{getattr(table, column)}: ")
    assert page["pair"] == "digits"


def test_the_numbers_are_those_of_the_store(folder):
    assert shipped(folder, "numbers", "--method", "imp") == 0
    kept = {
        (one["spec"], one["level"]): one for one in rows(read_plan(folder / "one.toml"), folder / "store")
    }
    with (folder / "numbers.csv").open() as file:
        written = {(one["spec"], int(one["level"])): one for one in csv.DictReader(file)}
    assert set(kept) <= set(written)
    for key, one in kept.items():
        assert float(written[key]["error"]) == pytest.approx(one["error"], abs=1e-6)
        assert int(written[key]["nonzero"]) == one["nonzero"]
    assert "status" not in next(iter(written.values()))
    assert "validation_error" not in next(iter(written.values()))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ((), "several method values, imp, random; choose one with --method"),
        (("--method", "imp", "--recipe", "long"), "no finished levels of these plans; name another --store"),
    ],
)
def test_what_is_no_table_is_refused(folder, capsys, more, words):
    assert shipped(folder, "none", *more) == 2
    assert words in capsys.readouterr().err
    assert not Path(folder / "none.csv").exists()


def test_a_table_is_preferred_only_where_that_is_said(folder):
    assert shipped(folder, "first", "--method", "imp", "--preferred") == 0
    assert json.loads((folder / "first.json").read_text())["preferred"] is True


def test_a_control_belongs_to_no_pair(folder):
    assert shipped(folder, "control", "--method", "random") == 0
    page = json.loads((folder / "control.json").read_text())
    assert not {"pair", "preferred"} & set(page)
    assert page["method"].startswith(
        "random: each level removes 20% of the remaining weights (chosen at random)"
    )


def test_a_recipe_is_described():
    recipe = Recipe(
        name="modern",
        epochs=10,
        learning_rate=0.001,
        batch_size=20,
        optimizer="adamw",
        weight_decay_on="weights",
        schedule="cosine",
        warmup=1,
        label_smoothing=0.1,
        gradient_clip=1.0,
    )
    assert recipe_words(recipe) == (
        "adamw with momentum 0.9, weight decay 0.0001 except on norms and biases, learning rate 0.001 with the "
        "schedule cosine down to 0, 10 epochs, warm-up of 1 epochs, batch 20, label smoothing 0.1, gradients clipped "
        "to a norm of 1, augmentation none, fp32"
    )
