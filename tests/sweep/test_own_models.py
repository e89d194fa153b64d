"""A user's own networks: what `plan` and `run` refuse and print; torch's modules train everywhere."""

import sys
from functools import partial
from pathlib import Path

import pytest
from small import BRIEF, parsed

sys.path.insert(0, str(Path(__file__).parent))

from prunecast.errors import PrunecastError
from prunecast.sweep import SweepProgress, event_line, overview, run_plan, work
from prunecast.sweep.overview import replaced_weights
from prunecast.sweep.wording import start_lines


def plan(family, **changes):
    text = BRIEF.replace('"digits_cnn"', f'"{family}"').replace("replicates = 2\n", "")
    for key, value in {"num_examples": 100, "level_cap": 1, **changes}.items():
        text = "\n".join(
            f"{key} = {value}" if line.startswith(f"{key} =") else line for line in text.splitlines()
        )
    return parsed(text)


@pytest.mark.parametrize(
    ("family", "changes", "message"),
    [
        (
            "own_models:shallow",
            {"depth": "[3, 5]"},
            "own_models:shallow' cannot be built at depth 5 and width 0.5: ValueError: at most 4 layers (own_models.py",
        ),
        (
            "own_models:for_other_images",
            {},
            "module '0' (Conv2d) takes 3 channels, but gets 1 from images of 1x8x8",
        ),
        (
            "own_models:of_one_size",
            {"width": "[1, 2]"},
            "has no argument width, so networks of width 1 and 2 would be the same; add the argument, or give one",
        ),
    ],
)
def test_networks_that_cannot_be_trained_are_refused_before_anything_runs(tmp_path, family, changes, message):
    for refuse in (overview, partial(run_plan, store=tmp_path)):
        with pytest.raises(PrunecastError) as refused:
            refuse(plan(family, **changes))
        assert message in str(refused.value)
    assert not list(tmp_path.iterdir())


def backwards(labels):
    return labels


def test_a_loss_that_fails_is_refused_before_anything_runs(tmp_path):
    own = parsed(BRIEF.replace("[recipe]", '[recipe]\nloss = "test_own_models:backwards"'))
    for refuse in (overview, partial(run_plan, store=tmp_path)):
        with pytest.raises(
            PrunecastError, match="loss 'test_own_models:backwards' fails: TypeError: backwards"
        ):
            refuse(own)
    assert not list(tmp_path.iterdir())


def test_a_training_run_that_diverges_says_what_to_change(tmp_path):
    own = parsed(BRIEF.replace("[recipe]", "[recipe]\nlearning_rate = 1e9").replace("replicates = 2\n", ""))
    said = [event_line(own, event) for event in run_plan(own, tmp_path)]
    assert "diverged" in said[0]
    assert "the loss is not finite; lower the learning_rate, or set gradient_clip" in said[0]
    assert "train longer" not in said[0]


def keeping(family):
    return parsed(
        BRIEF.replace('"digits_cnn"', f'"{family}"').replace("[recipe]", '[recipe]\ninitial_weights = "own"')
    )


def test_own_initial_weights_are_refused_where_there_are_none_or_others_every_time():
    assert {chain.spec.recipe.initial_weights for chain in keeping("own_models:stock").chains} == {"own"}
    overview(keeping("own_models:stock"))
    with pytest.raises(PrunecastError, match="but digits_cnn is built in; remove it"):
        keeping("digits_cnn")
    with pytest.raises(PrunecastError, match=r"makes another 1\.bias every time"):
        overview(keeping("own_models:of_the_moment"))


@pytest.mark.parametrize(
    ("own", "named"),
    [
        (plan("own_models:stock"), ("own_models:stock",)),
        (keeping("own_models:stock"), ()),
        (plan("own_models:kept"), ()),
        (plan("own_models:of_one_size"), ()),
        (plan("vit_patch2"), ()),
    ],
)
def test_transformers_whose_weights_are_replaced_are_named(tmp_path, own, named):
    seen = overview(own).plan
    assert replaced_weights(seen) == named
    said = [line for line in start_lines(seen, tmp_path, SweepProgress([])) if "initial_weights" in line]
    assert [line.partition(" has layer norms or attention")[0] for line in said] == list(named)


def test_a_plan_shows_the_sizes_of_your_own_networks():
    (network,) = overview(plan("own_models:of_one_size")).networks
    assert (network.parameters, network.weights) == (650, 640)


def lines(family, store, **options):
    own = plan(family)
    events = list(run_plan(own, store, executor=partial(work, **options)))
    return [event.record for event in events], [event_line(own, event) for event in events]


@pytest.mark.parametrize("family", ["own_models:stock", "own_models:of_one_size", "vit_patch2"])
def test_fleets_train_what_they_cannot_pack_as_the_plain_loop_does(tmp_path, family):
    plain, _ = lines(family, tmp_path / "plain")
    packed, _ = lines(family, tmp_path / "fleet", packed=True)
    assert [record.level for record in plain] == [0, 1]
    assert [record.loss for record in packed] == pytest.approx([record.loss for record in plain], rel=1e-4)
    assert [record.nonzero for record in packed] == [record.nonzero for record in plain]


def test_what_cannot_be_traced_is_named_in_plain_words(tmp_path, caplog):
    _, said = lines("own_models:choosy", tmp_path, packed=True)
    place = "module '2' (Choosy, own_models.py, line 39) cannot be followed operation by operation (avoid conditions"
    assert (
        f"({place}, loops and len() on tensors and their shapes), so it is not known which weights" in said[0]
    )
    assert place in caplog.text
    assert "symbolically" not in caplog.text


def test_the_patch_size_of_a_vit_is_part_of_its_name():
    text = BRIEF.replace('"digits_cnn"', '"vit"')
    assert {chain.spec.family for chain in parsed(text).chains} == {"vit_patch4"}
    both = parsed("patch_size = [2, 4]\n" + text)
    assert [chain.spec.family for chain in both.chains[::4]] == ["vit_patch2", "vit_patch4"]
    assert len(overview(both).networks) == 2
    for given, message in (
        ("patch_size = 3\n" + text, "patch_size is 3; choose one of 2, 4, 8, 14, 16, 32"),
        ("patch_size = 4\n" + BRIEF, 'patch_size is for the family "vit", not for digits_cnn; remove it'),
        ("patch_size = 1.5\n" + text, "patch_size is 1.5; give a whole number"),
    ):
        with pytest.raises(PrunecastError) as refused:
            parsed(given)
        assert message in str(refused.value)
    with pytest.raises(PrunecastError, match="images of 8x8 pixels cannot be cut into patches of 16x16"):
        overview(parsed("patch_size = 16\n" + text))


def test_times_are_interpolated_by_the_multiply_adds_that_running_shows(monkeypatch):
    from prunecast.sweep import estimation

    shown = overview(plan("own_models:stock", width="[1, 2]")).plan
    counts = [chain.size.multiply_adds for chain in shown.chains]
    assert counts[0] < counts[1] < 4 * counts[0]
    timed = []
    monkeypatch.setattr(
        estimation, "timed_images", lambda spec, batch, device, per_image: timed.append(per_image) or 2
    )
    estimation.estimate(shown)
    assert sorted(timed) == counts
