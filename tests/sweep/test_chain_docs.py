import re
import tomllib
from pathlib import Path

from prunecast import spec
from prunecast.sweep import parse_plan
from prunecast.sweep.grid import KEYS, STOP_KEYS

PAGE = (Path(__file__).parents[2] / "docs" / "chain.md").read_text(encoding="utf-8")


def test_the_plan_on_the_page_is_a_plan():
    text, *_ = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    plan = parse_plan(text, name="page", place="page", folder=Path())
    assert len(plan.chains) == 3 * 3 * 2 * 3
    assert plan.chains[0].spec.recipe.drops == (12, 18)
    assert set(tomllib.loads(text)["stop"]) == set(STOP_KEYS)


def test_the_recipe_on_the_page_is_a_recipe():
    plan, recipe, _ = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    chains = parse_plan(plan[: plan.index("[recipe]")] + recipe, name="page").chains
    assert {chain.spec.recipe.optimizer for chain in chains} == {"adamw"}
    assert chains[0].spec.recipe.drops == ()


def test_every_key_method_and_recipe_is_on_the_page():
    words = [*KEYS, *spec.METHODS, *spec.RECIPES, *spec.method("imp").__dataclass_fields__]
    words += [f"`{name}`" for name in spec.recipe("cifar10").__dataclass_fields__]
    words += [f"`{name}`" for names in spec.RECIPE_NAMES.values() for name in names]
    assert [word for word in words if word not in PAGE and word != "substeps"] == []


def test_the_table_of_recipes_is_that_of_the_presets():
    for line in re.findall(r"^\| (`[a-z0-9`, -]+) \| (.*) \|$", PAGE, re.MULTILINE):
        names, values = re.findall(r"`([^`]+)`", line[0]), [value.strip() for value in line[1].split("|")]
        if len(values) != 6:
            continue
        for name in names:
            recipe = spec.recipe(name)
            drops = ", ".join(f"{drop:g}" for drop in recipe.drops)
            warmup = f"{recipe.warmup:g} epochs" if recipe.warmup else ""
            sizes = [f"{recipe.epochs:g}", drops, str(recipe.batch_size), f"{recipe.learning_rate:g}"]
            assert values == [*sizes, warmup, recipe.augmentation]
