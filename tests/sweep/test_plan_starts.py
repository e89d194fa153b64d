"""Plans whose chains start from files of trained weights."""

import pytest
import torch

from prunecast import families
from prunecast.errors import PrunecastError
from prunecast.sweep import Progress, overview, parse_plan, rows, run_plan

PLAN = """
family = "digits_cnn"
dataset = "digits"
recipe = {preset = "digits", epochs = 2}
depth = 3
width = [0.5, 1]
num_examples = 100
level_cap = 1
"""
EACH = PLAN + 'start = "net-{depth}-{width}.pt"\n'


@pytest.fixture(autouse=True)
def saved(tmp_path):
    for width in (0.5, 1):
        generator = torch.Generator().manual_seed(0)
        model = families.build("digits_cnn", depth=3, width=width, num_classes=10, generator=generator)
        torch.save(model.state_dict(), tmp_path / f"net-3-{width:g}.pt")
    return tmp_path


def parsed(text, folder):
    return parse_plan(text, name="p", place="p.toml", folder=folder)


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_table_says_where_chains_started(tmp_path, jobs):
    plan = parsed(EACH + 'method = "imp-fine-tuning"', tmp_path)
    assert [chain.start.name for chain in plan.chains] == ["net-3-0.5.pt", "net-3-1.pt"]
    told = [event for event in run_plan(plan, tmp_path / "store", jobs=jobs) if isinstance(event, Progress)]
    assert len(told) == 4
    table = rows(plan, tmp_path / "store")
    assert {row["method"] for row in table} == {"imp-fine-tuning+start=net-{depth}-{width}"}
    assert [(row["width"], row["level"], row["steps"] > 0) for row in table] == [
        (width, level, level > 0) for width in (0.5, 1) for level in (0, 1)
    ]
    (tmp_path / "net-3-1.pt").unlink()
    with pytest.raises(PrunecastError, match=r"^p.toml: start: there is no file .*net-3-1.pt; give the path"):
        parsed(EACH, tmp_path)


@pytest.mark.parametrize(
    ("method", "start", "trained", "name"),
    [
        ("imp", '"net-3-1.pt"', False, "imp+start=net-3-1"),
        ("synflow", '"net-3-1.pt"', False, "synflow+start=net-3-1"),
        ("imp-rate-rewinding", '"net-3-1.pt"', True, "imp-rate-rewinding+start=net-3-1"),
        ("imp", '{file = "net-3-1.pt", train = false}', True, "imp+start=net-3-1+train=false"),
        (
            "imp-fine-tuning",
            '{file = "net-3-1.pt", train = true}',
            False,
            "imp-fine-tuning+start=net-3-1+train=true",
        ),
    ],
)
def test_level_0_is_trained_where_weights_are_rewound_or_the_plan_says_so(
    tmp_path, method, start, trained, name
):
    text = PLAN.replace("[0.5, 1]", "1") + f'method = "{method}"\nstart = {start}\n'
    (chain,) = parsed(text, tmp_path).chains
    assert (chain.spec.start_trained, chain.spec.method.name) == (trained, name)
    plain = PLAN.replace("[0.5, 1]", "1") + f'method = "{method}"\n'
    assert parsed(plain, tmp_path).chains[0].spec.digest != chain.spec.digest


def test_weights_of_another_network_are_refused_before_anything_trains(tmp_path):
    plan = parsed(PLAN + 'start = "net-3-1.pt"\n', tmp_path)
    words = r"net-3-1.pt: the tensor '.*' has shape .*, but in digits_cnn of depth 3 and width 0.5 it has .*; plan the"
    with pytest.raises(PrunecastError, match=words):
        run_plan(plan, tmp_path / "store")
    with pytest.raises(PrunecastError, match=words):
        overview(plan)
    assert not (tmp_path / "store").exists()


def test_a_trained_start_costs_no_steps(tmp_path):
    own, random = (parsed(text + 'method = "imp-fine-tuning"', tmp_path) for text in (EACH, PLAN))
    assert (overview(own).epochs, overview(random).epochs) == (4, 8)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("start = 3", "p.toml, [start] is 3; give a table"),
        ("start = {train = true}", "p.toml, [start] lacks the key file; name a file of weights"),
        ('start = {file = "net-3-1.pt", trained = true}', "[start] has the unknown key 'trained'"),
        ('start = {file = "net-3-1.pt", train = "no"}', "[start]: train is 'no'; give true or false"),
        (
            'start = "{size}.pt"',
            "start is '{size}.pt'; in braces give one of {family}, {dataset}, {depth}, {width}",
        ),
        ('start = "{width.x}.pt"', "in braces give"),
        ('start = "{.pt"', "in braces give"),
        ('start = "{width:>999999999}.pt"', "in braces give"),
        ('start = "net\\u0000.pt"', "give a name without control characters"),
        ('start = "~nobody-of-this-name/net.pt"', "there is no such user; give a path"),
        ('start = ""', "it is not a regular file"),
        ('start = "/dev/zero"', "it is not a regular file"),
        (
            'start = {file = "net-3-1.pt", train = false}\nmethod = "synflow"',
            "trains every level from its start; let the start be trained",
        ),
    ],
)
def test_mistakes_are_refused(tmp_path, given, words):
    with pytest.raises(PrunecastError) as failure:
        parsed(PLAN + given, tmp_path)
    assert words in str(failure.value)


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        ('loss = "missing_module:loss"', "cannot import loss 'missing_module:loss'"),
        ('optimizer = "torch.optim:SGD"', "optimizer 'torch.optim:SGD' is type; it must be"),
        (
            'schedule = "math:nothing"',
            "learning-rate schedule 'math:nothing': the module math has no attribute",
        ),
    ],
)
def test_a_plan_that_names_what_is_not_there_is_refused_at_once(tmp_path, recipe, words):
    text = PLAN.replace("epochs = 2", f"epochs = 2, {recipe}")
    with pytest.raises(PrunecastError, match=words):
        overview(parsed(text, tmp_path))
    with pytest.raises(PrunecastError, match=words):
        run_plan(parsed(text, tmp_path), tmp_path / "store")
