import dataclasses

import pytest

from prunecast import spec
from prunecast.errors import PrunecastError

# name: epochs, batch, learning rate, drops, warm-up, rewind, augmentation
APPENDIX_B = {
    "cifar10": (160, 128, 0.1, (80, 120), 0, 10, "flip-shift"),
    "cifar100": (160, 128, 0.1, (80, 120), 0, 10, "flip-shift"),
    "svhn": (160, 128, 0.1, (80, 120), 0, 10, "none"),
    "cifar10-densenet": (200, 128, 0.1, (130, 165), 0, 10, "flip-shift"),
    "svhn-densenet": (100, 128, 0.1, (70, 85), 0, 10, "none"),
    "imagenet": (90, 1024, 0.4, (30, 60, 80), 5, 10, "resized-crop"),
    "tinyimagenet": (200, 1024, 0.2, (100, 150), 5, 10, "resized-crop"),
}


@pytest.mark.parametrize("name", APPENDIX_B)
def test_presets_are_those_of_the_paper(name):
    recipe = spec.recipe(name)
    found = (
        recipe.epochs,
        recipe.batch_size,
        recipe.learning_rate,
        recipe.drops,
        recipe.warmup,
        recipe.rewind,
        recipe.augmentation,
    )
    assert found == APPENDIX_B[name]
    assert (recipe.optimizer, recipe.momentum, recipe.weight_decay, recipe.drop_factor) == (
        "sgd",
        0.9,
        1e-4,
        0.1,
    )


@pytest.mark.parametrize(
    ("family", "dataset", "cap"),
    [
        ("cifar_resnet", "cifar10", 40),
        ("cifar_resnet", "svhn", 40),
        ("vgg", "svhn", 37),
        ("densenet", "cifar10", 50),
        ("tinyimagenet_resnet", "tinyimagenet", 50),
        ("imagenet_resnet", "imagenet", 30),
    ],
)
def test_level_caps(family, dataset, cap):
    assert spec.level_cap(family, dataset) == cap


def test_shorter_version_is_proportional():
    short = spec.recipe("imagenet").changed({"epochs": 18})
    assert (short.epochs, short.drops, short.warmup, short.rewind) == (18, (6, 12, 16), 1, 2)
    assert short.name == "imagenet+epochs=18"


def test_explicit_positions_win_over_scaling():
    short = spec.recipe("cifar10").changed({"epochs": 24, "rewind": 2, "precision": "bf16"})
    assert (short.drops, short.rewind) == ((12, 18), 2)
    assert short.name == "cifar10+epochs=24+rewind=2+precision=bf16"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epoch": 3}, "'epoch'; valid keys are name, epochs"),
        ({"optimizer": "sgdm"}, "optimizer is 'sgdm'; choose one of sgd, adam"),
        ({"precision": "fp16"}, "choose one of fp32, tf32, bf16"),
        ({"batch_size": 0}, "batch_size is 0; give a positive number"),
        ({"drops": [200]}, "drops must lie between 0 and its 160 epochs"),
        ({"rewind": -1}, "rewind must lie between"),
        ({"momentum": 1}, "momentum is 1; give a number from 0 to below 1"),
        ({"weight_decay": -1e-4}, "weight_decay"),
        ({"steps": 0}, "steps is 0"),
        ({"learning_rate": "0.1"}, "learning_rate is '0.1'; give a number"),
        ({"drops": 80}, "drops is 80; give a list of numbers"),
        (
            {"optimizer": "adamW"},
            "choose one of sgd, adam, adamw, or name your own as package.module:attribute",
        ),
        ({"schedule": "cosines"}, "schedule is 'cosines'; choose one of step, cosine, one-cycle"),
        ({"loss": "mse"}, "loss is 'mse'; choose one of cross-entropy, or name your own"),
        ({"schedule": "cosine", "drops": [80]}, "drops belong to the schedule step, not to cosine"),
        ({"final_learning_rate": 0.01}, "final_learning_rate belongs to the schedules cosine and one-cycle"),
        ({"schedule": "cosine", "final_learning_rate": 1}, "give a number from 0 to its learning_rate, 0.1"),
        ({"label_smoothing": 1}, "label_smoothing is 1; give a number from 0 to below 1"),
        ({"label_smoothing": 0.1, "loss": "own:loss"}, "let own:loss smooth labels itself"),
        ({"gradient_clip": 0}, "gradient_clip is 0; give a positive number"),
        ({"gradient_clip": "1"}, "gradient_clip is '1'; give a number"),
        (
            {"initial_weights": "xavier"},
            "initial_weights is 'xavier'; choose one of he-uniform, own",
        ),
        ({"weight_decay_on": "norms"}, "weight_decay_on is 'norms'; choose one of all, weights"),
    ],
)
def test_mistakes_name_the_field_and_the_remedy(changes, words):
    with pytest.raises(PrunecastError) as failure:
        spec.recipe("cifar10").changed(changes)
    assert words in str(failure.value)


def test_a_schedule_without_drops_takes_those_of_the_preset_away():
    recipe = spec.recipe("cifar10").changed({"schedule": "cosine", "epochs": 20})
    assert (recipe.drops, recipe.name) == ((), "cifar10+schedule=cosine+epochs=20")
    assert spec.recipe("cifar10").changed({"schedule": "own:schedule"}).drops == (80, 120)


def test_fine_tuning_needs_a_learning_rate_at_the_end_of_the_schedule():
    recipe = spec.recipe("digits").changed({"schedule": "cosine"})
    sizes = {"family": "digits_cnn", "dataset": "digits", "depth": 3, "width": 1, "num_examples": 100}
    with pytest.raises(
        PrunecastError, match=r"the schedule cosine ends at 0; add final_learning_rate = 0.01, or another"
    ):
        spec.ChainSpec(recipe=recipe, method=spec.method("imp-fine-tuning"), **sizes)
    spec.ChainSpec(recipe=recipe, method=spec.method("imp"), **sizes)
    ends = recipe.changed({"final_learning_rate": 1e-3})
    spec.ChainSpec(recipe=ends, method=spec.method("imp-fine-tuning"), **sizes)


def test_unknown_names_list_the_known_ones():
    with pytest.raises(PrunecastError, match="cifar10, cifar100, svhn"):
        spec.recipe("cifar")
    with pytest.raises(PrunecastError, match="imp, imp-layerwise"):
        spec.method("lottery")


def test_synflow_prunes_before_training_and_nothing_else_does():
    assert [name for name, method in spec.METHODS.items() if method.before_training] == ["synflow"]
    with pytest.raises(PrunecastError, match="belong together"):
        spec.Method(name="mixed", score="synflow")
    with pytest.raises(PrunecastError, match="rewind = 0"):
        dataclasses.replace(spec.method("imp"), retraining="from-start")
