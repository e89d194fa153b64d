"""The plans in the guides and the reference can be read, and name existing keys and functions."""

import re
import tomllib
from pathlib import Path

from prunecast import spec
from prunecast.sweep import parse_plan
from prunecast.sweep.grid import KEYS, STOP_KEYS

DOCS = Path(__file__).parents[2] / "docs"


def text(*names: str) -> str:
    return "\n".join((DOCS / name).read_text(encoding="utf-8") for name in names)


def plans(name: str) -> list[str]:
    return re.findall(r"```toml\n(.*?)```", text(name), re.DOTALL)


def test_the_plan_of_the_guide_is_a_plan():
    shown, *_ = plans("how-to/train-a-grid.md")
    plan = parse_plan(shown, name="page", place="page", folder=Path())
    assert len(plan.chains) == 3 * 3 * 2 * 3
    assert plan.chains[0].spec.recipe.drops == (12, 18)
    assert set(tomllib.loads(shown)["stop"]) == set(STOP_KEYS)


def test_the_parts_of_plans_that_guides_show_are_accepted():
    """A recipe, a method for whole channels and the selection rule; `start` would need a file."""
    whole, selection = plans("how-to/train-a-grid.md")
    recipe, start, channels = plans("how-to/bring-a-network.md")
    sizes = whole[: whole.index("[recipe]")]
    own = re.sub(r"^family = .*$", 'family = "my_model:build"', sizes, flags=re.MULTILINE)
    chains = parse_plan(own + recipe, name="page").chains
    assert {chain.spec.recipe.optimizer for chain in chains} == {"adamw"}
    assert chains[0].spec.recipe.drops == ()
    other = sizes.replace('method = "imp"', 'recipe = "cifar10"\n#')
    assert parse_plan(other + channels, name="page").chains[0].spec.method.structure == "channels"
    assert parse_plan(other + selection, name="page").chains
    assert set(tomllib.loads(start)) <= set(KEYS)


def test_every_key_method_and_recipe_is_in_the_reference():
    reference = text("reference/plan-keys.md", "reference/recipes.md")
    words = [*KEYS, *spec.METHODS, *spec.RECIPES, *spec.method("imp").__dataclass_fields__]
    words += spec.recipe("cifar10").__dataclass_fields__
    words += ["weight-rewinding", "rate-rewinding", "fine-tuning", "from-start"]
    assert [word for word in words if f"`{word}`" not in reference] == []
    names = [name for names in spec.RECIPE_NAMES.values() for name in names]
    assert [name for name in names if name not in reference] == []
