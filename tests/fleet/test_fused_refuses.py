"""Operations that cannot be fused are refused by name."""

import dataclasses
import re

import pytest
import torch
from fused_nets import Own, own
from torch import nn
from torch.nn import functional as F  # noqa: N812

from prunecast import spec
from prunecast.families import build
from prunecast.fleet import pack
from prunecast.fleet.kernels.lowering import lower
from prunecast.fleet.kernels.program import Unfused
from prunecast.fleet.kernels.step import FUSED_KEYS, refuse_recipe
from prunecast.fleet.pack import _pick

SHAPE = (3, 16, 16)


def middle(method) -> nn.Module:
    return own(methods={"middle": method})


def end(method, **changes) -> nn.Module:
    return own(methods={"end": method}, **changes)


def conv(kernel=3, stride=1, padding=1, bias=False, **settings) -> nn.Module:
    return nn.Conv2d(8, 8, kernel, stride, padding=padding, bias=bias, **settings)


def plain(self, x):
    return F.relu(self.norm1(self.conv1(x)))


def in_place(self, x):
    y = self.norm1(self.conv1(x))
    return F.relu(x.add_(y))


def dead_end(self, x):
    F.relu(self.norm1(self.conv1(x)))
    return x


def norm_twice(self, x):
    y = self.norm1(self.conv1(x))
    return F.relu(y + F.relu(y))


def conv_twice(self, x):
    y = self.conv1(x)
    return F.relu(self.norm1(y) + self.norm2(y))


def three_terms(self, x):
    y = self.norm1(self.conv1(x)) + x
    return F.relu(y + x)


def plus_images(self, x):
    y = F.relu(self.stem_norm(self.stem(x)))
    return self.end(F.relu(self.norm1(self.conv1(y)) + x))


OWN = {
    "kernel": (own(conv1=conv(5, padding=2)), "'conv1' (Conv2d) has kernel_size (5, 5)"),
    "oblong": (own(conv1=conv((1, 3), padding=(0, 1))), "'conv1' (Conv2d) has kernel_size (1, 3)"),
    "stride": (own(conv2=conv(stride=4), short=conv(1, 4, 0)), "'conv2' (Conv2d) has stride (4, 4)"),
    "padding": (own(conv1=conv(padding=0), methods={"middle": plain}), "'conv1' (Conv2d) has padding (0, 0)"),
    "same": (own(conv1=conv(padding="same")), "'conv1' (Conv2d) has padding same"),
    "dilation": (own(conv1=conv(padding=2, dilation=2)), "'conv1' (Conv2d) has dilation (2, 2)"),
    "mode": (own(conv1=conv(padding_mode="circular")), "'conv1' (Conv2d) has padding_mode circular"),
    "bias": (own(conv1=conv(bias=True)), "'conv1' (Conv2d) has bias"),
    "affine": (own(norm1=nn.BatchNorm2d(8, affine=False)), "'norm1' (BatchNorm2d) lacks"),
    "untracked": (own(norm1=nn.BatchNorm2d(8, track_running_stats=False)), "'norm1' (BatchNorm2d) lacks"),
    "headless bias": (own(head=nn.Linear(8, 7, bias=False)), "'head' (Linear) has no bias"),
    "coarse pool": (
        own(pool=nn.AdaptiveAvgPool2d(2), head=nn.Linear(32, 7)),
        "'pool' (AdaptiveAvgPool2d) pools to 2",
    ),
    "other activation": (own(relu=nn.SiLU()), "'relu' (SiLU)"),
    "other pool": (own(same=nn.AvgPool2d(3, 1, 1)), "'same' (AvgPool2d)"),
    "no norm": (middle(lambda m, x: F.relu(m.conv1(x))), "reads a convolution (Module 'conv1' (Conv2d))"),
    "no relu": (middle(lambda m, x: m.norm1(m.conv1(x))), "'conv2' (Conv2d) reads a norm"),
    "sum without relu": (middle(lambda m, x: x + m.norm1(m.conv1(x))), "'conv2' (Conv2d) reads a sum"),
    "relu twice": (middle(lambda m, x: F.relu(x)), "'relu' (node relu_1) reads a value"),
    "two norms": (middle(lambda m, x: m.norm1(m.same(x))), "'norm1' (BatchNorm2d) reads a value"),
    "two values": (middle(lambda m, x: F.relu(x + x)), "'add' (node add)"),
    "number": (middle(lambda m, x: F.relu(m.norm1(m.conv1(x)) + 1)), "'add' (node add) reads 1"),
    "scaled": (
        middle(lambda m, x: F.relu(torch.add(m.norm1(m.conv1(x)), x, alpha=2))),
        "'add' (node add) is not a sum",
    ),
    "product": (middle(lambda m, x: F.relu(m.norm1(m.conv1(x)) * x)), "'mul' (node mul)"),
    "three terms": (middle(three_terms), "'add' (node add_1) reads a sum"),
    "in place": (middle(in_place), "'add_' (node add_) changes the output of"),
    "dead end": (middle(dead_end), "'relu' (node relu_1) is not read by any layer"),
    "norm twice": (middle(norm_twice), "'add' (node add) reads Module 'norm1' (BatchNorm2d)"),
    "conv twice": (middle(conv_twice), "'norm2' (BatchNorm2d) reads Module 'conv1' (Conv2d)"),
    "layer twice": (
        middle(lambda m, x: F.relu(m.stem_norm(m.conv1(x)))),
        "'stem_norm' (BatchNorm2d) is used",
    ),
    "images": (own(width=3, methods={"forward": plus_images}), "'add' (node add) adds other things"),
    "other mean": (end(lambda m, x: m.head(x.mean(3).mean(2))), "'mean' (node mean)"),
    "maximum": (end(lambda m, x: m.head(x.amax((2, 3)))), "'amax' (node amax)"),
    "flattened": (end(lambda m, x: m.head(torch.flatten(x, 1)), head=nn.Linear(512, 7)), "'flatten'"),
    "two layers": (
        end(lambda m, x: m.last(m.head(x.mean((2, 3)))), last=nn.Linear(7, 4)),
        "'last' (Linear) reads a scores",
    ),
    "depthwise": (own(conv1=conv(groups=8)), "'conv1' (Conv2d) has 16 inputs in 16 groups"),
}


@pytest.mark.parametrize("case", OWN)
def test_refusal_names_the_module_or_operation(case):
    model, named = OWN[case]
    group = 1 if case == "depthwise" else None
    with pytest.raises(Unfused, match=re.escape(named)):
        lower(pack([model, model], image_shape=SHAPE, smallest_group=group), SHAPE)


@pytest.mark.parametrize(
    ("family", "depth", "image_shape", "named"),
    [
        ("vgg", 16, (3, 32, 32), "Module 'section1_pool' (MaxPool2d)"),
        ("densenet", 121, (3, 32, 32), "Operation 'cat'"),
        ("imagenet_resnet", 18, (3, 64, 64), "Module 'stem' (Conv2d) has kernel_size (7, 7)"),
        ("imagenet_resnet", 18, (3, 224, 224), "Images of 224x224"),
        ("digits_cnn", 5, (1, 8, 8), "Module 'pool' (MaxPool2d)"),
        ("cifar_resnet", 8, (3, 28, 28), "Images of 28x28"),
        ("cifar_resnet", 8, (3, 15, 15), "Images of 15x15"),
        ("cifar_resnet", 8, (3, 16, 32), "Images of 16x32"),
        ("cifar_resnet", 8, (3, 8, 8), "Module 'stage3_block1_conv1' (Conv2d) makes images of 2x2"),
    ],
)
def test_other_families_and_images_are_refused(family, depth, image_shape, named):
    generator = torch.Generator().manual_seed(0)
    options = {"depth": depth, "width": 1 / 8, "num_classes": 7, "image_shape": image_shape}
    model = build(family, **options, generator=generator)
    with pytest.raises(Unfused, match=re.escape(named)):
        lower(pack([model, model], image_shape=image_shape), image_shape)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"multiple": 8}, "The packed images have 8 channels"),
        ({"multiple": 32}, "Module 'stem' (Conv2d) has 16 channels in a row that belong to no slot"),
        ({"smallest_group": 8}, "Module 'conv1' (Conv2d) has 16 inputs in 2 groups"),
    ],
)
def test_packs_cut_otherwise_are_refused(options, named):
    with pytest.raises(Unfused, match=re.escape(named)):
        lower(pack([Own(), Own()], image_shape=SHAPE, **options), SHAPE)


def test_images_of_other_channels_than_the_pack_has_are_refused():
    with pytest.raises(Unfused, match="3 channels, not 1"):
        lower(pack([Own()], image_shape=SHAPE), (1, 16, 16))


def test_scores_that_are_picked_out_are_refused():
    made = pack([Own(), Own()], image_shape=SHAPE)
    graph = made.module.graph
    (rows,) = (node for node in graph.nodes if node.target == "unflatten")
    with graph.inserting_before(rows):
        rows.args = (graph.call_function(_pick, (rows.args[0], tuple(range(14)))), *rows.args[1:])
    with pytest.raises(Unfused, match="'_pick'"):
        lower(made, SHAPE)


OTHERWISE = {
    "optimizer": "adamw",
    "weight_decay_on": "weights",
    "gradient_clip": 1.0,
    "loss": "torch.nn.functional:multi_margin_loss",
    "label_smoothing": 0.1,
}
"""What the kernels cannot do, by key. A key that is neither here nor among `FUSED_KEYS` is refused, and fails here."""


def test_only_recipes_that_the_kernels_know_are_fused():
    changes = {"precision": "bf16", "momentum": 0.8, "schedule": "cosine", "initial_weights": "own"}
    recipe = spec.recipe("cifar10").changed(changes)
    refuse_recipe(recipe)
    for key, value in OTHERWISE.items():
        with pytest.raises(Unfused, match=f"Fused steps need {key} "):
            refuse_recipe(recipe.changed({key: value}))
    with pytest.raises(Unfused, match="Fused steps need precision bf16, not fp32"):
        refuse_recipe(recipe.changed({"precision": "fp32"}))
    assert {field.name for field in dataclasses.fields(recipe)} == set(FUSED_KEYS) | set(OTHERWISE)
