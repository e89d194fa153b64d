from pathlib import Path

import pytest

from prunecast.errors import PrunecastError
from prunecast.spec import Recipe
from prunecast.sweep import parse_plan, read_plan, shipped_plans

BASE = """
family = "digits_cnn"
dataset = "digits"
recipe = "digits"
depth = [3, 4]
width = [0.5, 1]
num_examples = [100, 200, 600]
replicates = 2
"""


def parsed(text):
    return parse_plan(text, name="p", place="p.toml", folder=Path("/here"))


def test_a_grid_is_the_product_of_its_lists():
    plan = parsed(BASE)
    found = {(c.spec.depth, c.spec.width, c.spec.num_examples, c.spec.replicate) for c in plan.chains}
    assert len(plan.chains) == len(found) == 2 * 2 * 3 * 2
    assert all(c.rules.level_cap == 40 and c.spec.method.name == "imp" for c in plan.chains)


def test_widths_and_shares_may_be_fractions_and_percentages():
    written = BASE.replace("[0.5, 1]", '["1/2", "100%", "12.5%"]').replace(
        "[100, 200, 600]", '["1/2", "25%"]'
    )
    plain = BASE.replace("[0.5, 1]", "[0.5, 1, 0.125]").replace("[100, 200, 600]", "[300, 150]")
    same = [{chain.spec.digest for chain in parsed(text).chains} for text in (written, plain)]
    assert same[0] == same[1]
    assert {chain.spec.width for chain in parsed(BASE.replace("[0.5, 1]", '"1/4"')).chains} == {0.25}


@pytest.mark.parametrize("width", ["1/0", "half", "1e999999999%", "-1/2", "nan", "0%"])
def test_texts_that_are_no_width_are_refused(width):
    with pytest.raises(PrunecastError, match="width is"):
        parsed(BASE.replace("[0.5, 1]", f'"{width}"'))


def test_grids_override_the_file_and_overlap_once():
    plan = parsed(
        BASE
        + '[[grid]]\nreplicates = [0]\n[[grid]]\nmethod = "random"\ndepth = 3\n[[grid]]\nreplicates = 2\n'
    )
    assert len(plan.chains) == 12 + 12 + 12
    assert len({chain.spec.digest for chain in plan.chains}) == 36


def test_tables_change_presets():
    plan = parsed(
        BASE.replace('recipe = "digits"\n', "")
        + 'level_cap = 7\nroot = "data"\nthreads = 2\n[recipe]\npreset = "digits"\nepochs = 4\n'
        + '[method]\nname = "half"\nfraction = 0.5\n[stop]\nat_chance = 0\ndisconnected = false\n'
    )
    chain = plan.chains[0]
    assert (chain.spec.recipe.name, chain.spec.recipe.drops) == ("digits+epochs=4", (2, 3))
    assert (chain.spec.method.fraction, chain.spec.threads) == (0.5, 2)
    assert (chain.rules.level_cap, chain.rules.at_chance, chain.rules.disconnected) == (7, 0, False)
    assert chain.root == Path("/here/data")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BASE + "widths = [1]", "p.toml has the unknown key 'widths'; valid keys are family, dataset"),
        (
            BASE + "[stop]\nchance = 3",
            "[stop] has the unknown key 'chance'; valid keys are disconnected, at_chance",
        ),
        (BASE + "[[grid]]\nseeds = 3", "unknown key 'seeds'"),
        (BASE + "[grid]\ndepth = 3", "write a grid as [[grid]]"),
        (BASE.replace("depth", "# depth"), "lacks the key depth"),
        (BASE.replace('recipe = "digits"', 'recipe = "digit"'), "recipe is 'digit'; choose one of cifar10"),
        (
            BASE.replace('recipe = "digits"', "") + "[recipe]\nepochs = 3",
            "[recipe] lacks the key preset; name the recipe to start from, or give name and learning_rate and",
        ),
        (
            BASE.replace('recipe = "digits"', "") + "[recipe]\nepoch = 3",
            "[recipe] has the unknown key 'epoch'",
        ),
        (BASE.replace("[3, 4]", "[]"), "depth is empty"),
        (BASE.replace("[3, 4]", "3.5"), "depth is 3.5; give a whole number"),
        (BASE.replace("[3, 4]", '"deep"'), "depth is 'deep'; give a whole number"),
        (BASE.replace("[0.5, 1]", "[0.5, -1]"), "p.toml: width is -1; give a positive factor"),
        (BASE.replace("replicates = 2", "replicates = 0"), "replicates is 0; give how many"),
        (BASE.replace('"digits_cnn"', "7"), "family is 7; give a name or a list of names"),
        (BASE + "method = 3", "method is 3; give a preset's name or a table"),
        (BASE + '[method]\nscore = "random"', "[method] lacks the key name"),
        (
            BASE + '[method]\nname = "x"\nscores = "random"',
            "unknown key 'scores'; valid keys are name, score",
        ),
        (BASE + "level_cap = true", "level_cap is True; give a whole number"),
        (BASE + "depth = 3", "is not a TOML file"),
        ("x", "p.toml is not a TOML file"),
    ],
)
def test_mistakes_are_named_with_the_remedy(text, words):
    with pytest.raises(PrunecastError) as failure:
        parsed(text)
    assert words in str(failure.value)


TEXTS = ("family", "dataset", "loader", "root")
NUMBERS = ("image_size", "depth", "width", "num_examples", "replicates", "threads", "level_cap", "devices")
TABLES = ("stop", "select", "resources", "scale")
WRONG = {
    **dict.fromkeys(TEXTS, ("5", "true", "{}", "[[]]", "1979-05-27")),
    **dict.fromkeys(
        NUMBERS, ("-1", '"x"', "true", "{}", "[[]]", "nan", "inf", "1" + "0" * 400, "1979-05-27")
    ),
    **dict.fromkeys(TABLES, ("5", '"x"', '""', "[]", "[1]", "1979-05-27")),
    **dict.fromkeys(("recipe", "method"), ("5", '"x"', "true", "{}", "[]", "[[]]", "1979-05-27")),
    "grid": ("5", '"x"', "true", "{}", "[]", "[[]]", "[1]"),
    "keep_weights": ("0", '"no"', "{}", "[]"),
    "stop.disconnected": ("0", '"no"', "[]"),
    "stop.at_chance": ("-1", '"x"', "true", "0.5", "inf"),
    "method.name": ("5", "[]", "{}"),
    "method.fraction": ("1", '"x"', "[]", "nan"),
    "method.substeps": ("0", '"x"', "0.5", "inf"),
    "recipe.name": ("5", "[1]", "{}"),
    "recipe.epochs": ("0", '"x"', "nan", "[]"),
    "recipe.drops": ("5", '"x"', "[[]]", "[nan]"),
}


NEEDED = {"method": {"name": '"own"'}, "recipe": {"preset": '"digits"'}}


def written(key, value):
    """The line of a plan that sets a key; a dot separates its table."""
    table, _, field = key.rpartition(".")
    inside = ", ".join(f"{own} = {text}" for own, text in {**NEEDED.get(table, {}), field: value}.items())
    return f"{table} = {{{inside}}}" if table else f"{key} = {value}"


@pytest.mark.parametrize("key", WRONG)
def test_a_value_of_the_wrong_kind_is_a_sentence_that_names_plan_and_key(key):
    kept = [line for line in BASE.splitlines() if not line.startswith(f"{key.partition('.')[0]} =")]
    for value in WRONG[key]:
        with pytest.raises(PrunecastError) as failure:
            parsed("\n".join([*kept, written(key, value)]))
        words = str(failure.value).lower()
        assert words.startswith("p.toml"), value
        assert key.rpartition(".")[2] in words, value


def test_shipped_plans_are_read_by_name():
    assert "digits-chain" in shipped_plans()
    for name in shipped_plans():
        assert read_plan(name).chains
    assert len(read_plan("digits-chain").chains) == 1
    with pytest.raises(
        PrunecastError, match=r"no plan digit-chain; give a TOML file, or one of .*digits-chain"
    ):
        read_plan("digit-chain")


MODERN = """
[recipe]
name = "modern"
epochs = 10
learning_rate = 0.001
batch_size = 20
optimizer = "adamw"
weight_decay_on = "weights"
schedule = "cosine"
warmup = 1
label_smoothing = 0.1
gradient_clip = 1.0
"""


def test_a_recipe_without_a_preset():
    plan = parse_plan(BASE.replace('recipe = "digits"', "") + MODERN, name="own")
    (recipe,) = {chain.spec.recipe for chain in plan.chains}
    assert recipe == Recipe(
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
