"""A law and a plan of different networks: the refusal says what would agree, and that does."""

import hashlib
import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from made_networks import Made, Swept
from own_tables import own_table

import prunecast
from prunecast.choice import choose
from prunecast.cli import cli
from prunecast.errors import PrunecastError
from prunecast.export.orders import _possible, order, pattern
from prunecast.laws import fit
from prunecast.sweep import read_plan

STARTED = """
family = "{family}"
dataset = "digits"
start = "trained.safetensors"
method = "imp-fine-tuning"
recipe = {{preset = "digits", name = "brief", epochs = 2, drops = [1], rewind = 1}}
num_examples = 100
level_cap = 14
depth = {depth}
width = {width}
"""
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "export.md"


def test_the_plan_that_a_refusal_asks_for_is_the_one_on_the_page_and_agrees(tmp_path: Path) -> None:
    law = fit(prunecast.read("cifar10-resnet"))
    with pytest.raises(PrunecastError, match="of the recipe 'cifar10-160ep-bf16'") as caught:
        pattern(read_plan("cifar10-resnet"), law, None)
    (recipe,) = re.findall(r"recipe = \{.*?\}", str(caught.value))
    (plan,) = re.findall(r"```toml\n(.*?)\n```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert recipe in plan
    path = tmp_path / "own.toml"
    path.write_text(plan, encoding="utf-8")
    assert pattern(read_plan(path), law, None).spec.num_examples == 50_000


def test_missing_data_is_refused_with_the_place_to_get_it(tmp_path: Path) -> None:
    """The command of the page, on a machine without CIFAR-10."""
    (plan,) = re.findall(r"```toml\n(.*?)\n```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    path = tmp_path / "own.toml"
    path.write_text(plan, encoding="utf-8")
    with pytest.raises(
        PrunecastError, match=r"needs CIFAR-10, which is not in .*; put cifar-10-python.tar.gz from"
    ):
        order(
            prunecast.fit("cifar10-resnet", law="eq2"),
            read_plan(path, data=tmp_path),
            tmp_path / "network",
            target_error=0.10,
        )


def test_a_recipe_that_no_preset_has_is_written_out(tmp_path: Path) -> None:
    law = fit(prunecast.read("cifar10-resnet-24ep", where={"depth": 20, "num_examples": 12_500}))
    with pytest.raises(PrunecastError, match=r'name = "cifar10-24ep-bf16", .*rewind = 1\.5') as caught:
        pattern(read_plan("cifar10-resnet"), law, None)
    (written,) = re.findall(r"recipe = \{.*?\}", str(caught.value))
    path = tmp_path / "own.toml"
    sizes = 'family = "cifar_resnet"\ndataset = "cifar10"\ndepth = 20\nwidth = 1\nnum_examples = 12500\n'
    path.write_text(f"{sizes}{written}\n", encoding="utf-8")
    recipe = pattern(read_plan(path), law, None).spec.recipe
    assert (recipe.epochs, recipe.rewind, recipe.drops) == (24, 1.5, (12, 18))


def test_a_network_made_from_trained_weights_names_them(made: Made, tmp_path: Path) -> None:
    shape = json.loads((made.folder / "card.json").read_text(encoding="utf-8"))["network"]
    shutil.copy(made.folder / "model.safetensors", tmp_path / "trained.safetensors")
    (tmp_path / "small.toml").write_text(STARTED.format(**shape), encoding="utf-8")
    table, store = str(tmp_path / "results.csv"), str(tmp_path / "store")
    plan = str(tmp_path / "small.toml")
    done = CliRunner().invoke(cli, ["run", plan, "--store", store, "--jobs", "1", "-o", table])
    assert done.exit_code == 0, done.output
    asked = ["--depth", str(shape["depth"]), "--width", str(shape["width"]), "--density", "0.85"]
    result = Swept(tmp_path).run(*asked, output=tmp_path / "network")
    assert result.exit_code == 0, result.output
    card = json.loads((tmp_path / "network" / "card.json").read_text(encoding="utf-8"))
    digest = hashlib.sha256((tmp_path / "trained.safetensors").read_bytes()).hexdigest()
    start = card["training"]["start"]
    assert (start["file"], start["as_it_is"]) == ("trained.safetensors", True)
    assert digest.startswith(start["digest"])
    assert "level 0 is its network as it is" in (tmp_path / "network" / "README.md").read_text("utf-8")


def test_a_table_without_numbers_of_examples_is_told_to_have_them() -> None:
    with pytest.raises(PrunecastError, match=r"does not say how many examples .* add a column num_examples"):
        pattern(read_plan("digits-chain"), fit(prunecast.read(own_table())), None)


def test_what_is_out_of_reach_is_told_by_one_number() -> None:
    """A measured row may have been lucky; what a new training run is expected to reach is what to ask for."""
    chosen = choose("cifar10-resnet", target_error=0.0825)
    with pytest.raises(
        PrunecastError, match=r"No network of these sizes reaches 0\.0825 with probability 0\.8: the best"
    ) as caught:
        _possible(chosen)
    assert f"expected to reach is {chosen.answer.expected_error:.3f}, with depth 20" in str(caught.value)
    assert re.findall(r"0\.0\d\d+", str(caught.value)) == ["0.0825", f"{chosen.answer.expected_error:.3f}"]
