"""A packed network's program computes what its module computes; what it cannot say it names."""

import re

import pytest
import torch
from torch import fx, nn
from torch.nn import functional as F  # noqa: N812

from prunecast.families import build
from prunecast.fleet import pack
from prunecast.fleet.fused.lower import lower
from prunecast.fleet.fused.program import TILE, Unfused
from prunecast.fleet.pack import _pick

SHAPE = (3, 16, 16)
MIXED = (1, 1 / 2, 1 / 4, 1 / 8, 1 / 16)


def network(family: str, depth: int, width: float, seed: int = 0, image_shape=SHAPE) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    options = {"depth": depth, "num_classes": 7, "image_shape": image_shape, "generator": generator}
    return build(family, width=width, **options)


def packed(models, smallest_group=None, **options):
    """A pack in float64 whose members are in, with statistics and norms that differ between channels."""
    made = pack(models, image_shape=SHAPE, smallest_group=smallest_group, dtype=torch.float64, **options)
    generator = torch.Generator().manual_seed(1)
    for slot, model in enumerate(models):
        state = {
            name: tensor + torch.rand(tensor.shape, generator=generator) if tensor.ndim == 1 else tensor
            for name, tensor in model.state_dict().items()
        }
        made.load(slot, state)
    made.module.train()
    return made


def dense(weight, convolution):
    """The weight without groups, copied tile by tile: what lies in no tile is lost, as in the kernels."""
    outputs, inputs = convolution.out_channels, convolution.in_channels
    full = torch.zeros(outputs, inputs, *weight.shape[2:], dtype=weight.dtype)
    for output, source in convolution.tiles:
        rows = slice(output * TILE, (output + 1) * TILE)
        group = output * TILE // (outputs // convolution.groups)
        start = source * TILE - group * (inputs // convolution.groups)
        full[rows, source * TILE : (source + 1) * TILE] = weight[rows, start : start + TILE]
    return full


def interpret(program, state, images):
    """Run a program with plain functions; the statistics in `state` are renewed as in training."""

    def normed(number):
        c = program.convolutions[number]
        x, weight = values[c.source], dense(state[f"{c.name}.weight"], c)
        assert x.shape[1:] == (c.in_channels, c.in_size, c.in_size)
        y = F.conv2d(x, weight, stride=c.stride, padding=c.kernel // 2)
        assert y.shape[1:] == (c.out_channels, c.out_size, c.out_size)
        mean, var, scale, shift = (
            state[f"{c.norm}.{key}"] for key in ("running_mean", "running_var", "weight", "bias")
        )
        return F.batch_norm(y, mean, var, scale, shift, training=True, momentum=c.momentum, eps=c.eps)

    values = [images]
    for value in program.values[1:]:
        total = normed(value.convolution)
        total = total if value.shortcut is None else total + normed(value.shortcut)
        values.append(F.relu(total if value.other is None else total + values[value.other]))
    for number, value in enumerate(values):
        assert value.shape[1:] == (program.channels(number), *[program.size(number)] * 2)
    features, weight = values[program.final].mean((2, 3)), state[f"{program.head}.weight"]
    scores = []
    for slot, (start, count) in enumerate(program.members):
        rows, own = slice(slot * program.classes, (slot + 1) * program.classes), slice(start, start + count)
        scores.append(F.linear(features[:, own], weight[rows, own], state[f"{program.head}.bias"][rows]))
    return torch.stack(scores, 1)


def assert_program_is_module(made):
    program = lower(made, SHAPE)
    state = {name: tensor.clone() for name, tensor in made.module.state_dict().items()}
    images = torch.rand(made.slots, 3, *SHAPE, generator=torch.Generator().manual_seed(2)).double()
    with torch.no_grad():
        torch.testing.assert_close(
            interpret(program, state, made.join(images)), made.module(made.join(images)), rtol=0, atol=1e-10
        )
    for name, tensor in made.module.state_dict().items():  # running statistics too
        torch.testing.assert_close(state[name], tensor, rtol=0, atol=1e-10)
    return program


PACKS = [(8, widths, group) for widths in (MIXED, (1, 1, 1)) for group in (None, 16, 32)]
DEEP = [(14, (1 / 4,) * 8, 16), (20, MIXED[::-1], 32), (20, MIXED * 2, 16), (56, (1, 1 / 2), None)]


@pytest.mark.parametrize(("depth", "widths", "group"), PACKS + DEEP)
def test_program_computes_what_the_module_computes(depth, widths, group):
    made = packed([network("cifar_resnet", depth, width, seed) for seed, width in enumerate(widths)], group)
    program = assert_program_is_module(made)
    assert len(program.convolutions) == depth - 1 + 2  # the head is no convolution, two shortcuts are
    assert len(program.values) == depth
    assert {c.groups for c in program.convolutions} == {
        module.groups for module in made.module.modules() if isinstance(module, nn.Conv2d)
    }


@pytest.mark.parametrize(("depth", "widths", "group"), PACKS + DEEP[:1])
def test_tiles_are_those_in_which_a_member_has_a_weight(depth, widths, group):
    models = [network("cifar_resnet", depth, width) for width in widths]
    made = pack(models, image_shape=SHAPE, smallest_group=group)
    for slot, model in enumerate(models):
        made.load(slot, {name: torch.ones_like(tensor) for name, tensor in model.state_dict().items()})
    for c in lower(made, SHAPE).convolutions:
        weight = made.module.get_submodule(c.name).weight.detach().sum((2, 3))
        without_groups = torch.block_diag(*weight.chunk(c.groups))
        tiles = without_groups.reshape(c.out_channels // TILE, TILE, c.in_channels // TILE, TILE).sum((1, 3))
        assert [list(pair) for pair in c.tiles] == tiles.nonzero().tolist()


class Own(nn.Module):
    """A residual network as others write it, with a place for the thing in question."""

    def __init__(self, width: int = 8, **changes) -> None:
        super().__init__()
        self.stem, self.stem_norm = nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv1, self.norm1 = nn.Conv2d(width, width, 1, bias=False), nn.BatchNorm2d(width, eps=1e-3)
        self.conv2 = nn.Conv2d(width, width, 3, 2, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width, momentum=0.3)
        self.short, self.short_norm = nn.Conv2d(width, width, 1, 2, bias=False), nn.BatchNorm2d(width)
        self.same, self.relu, self.pool = nn.Identity(), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(width, 7)
        for name, module in changes.items():
            setattr(self, name, module)

    def forward(self, x):
        x = F.relu(self.stem_norm(self.stem(x)))
        x = self.middle(x)
        y = self.norm2(self.conv2(x))
        y += self.short_norm(self.short(x))
        return self.end(self.relu(y))

    def middle(self, x):
        return torch.relu(torch.add(self.same(x), self.norm1(self.conv1(x))))

    def end(self, x):
        return self.head(torch.flatten(self.pool(x), 1))


def test_networks_written_otherwise_are_read_too():
    program = assert_program_is_module(packed([Own(8), Own(16)]))
    assert [(v.convolution, v.shortcut, v.other) for v in program.values] == [
        (None, None, None),
        (0, None, None),
        (1, None, 1),
        (2, 3, None),
    ]
    assert [(c.kernel, c.stride, c.source) for c in program.convolutions] == [
        (3, 1, 0),
        (1, 1, 1),
        (3, 2, 2),
        (1, 2, 2),
    ]


def own(*, methods=None, **changes) -> nn.Module:
    """The network above with other modules or methods, less what these do not use: that cannot be packed."""
    model = type("Changed", (Own,), methods or {})(**changes)
    used = {node.target for node in fx.symbolic_trace(model).graph.nodes}
    for name in [name for name, _ in model.named_children() if name not in used]:
        delattr(model, name)
    return model


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
        "'add' (node add) is something else than a sum",
    ),
    "product": (middle(lambda m, x: F.relu(m.norm1(m.conv1(x)) * x)), "'mul' (node mul)"),
    "three terms": (middle(three_terms), "'add' (node add_1) reads a sum"),
    "in place": (middle(in_place), "'add_' (node add_) changes in place"),
    "dead end": (middle(dead_end), "'relu' (node relu_1) is read by nothing"),
    "norm twice": (middle(norm_twice), "'add' (node add) reads Module 'norm1' (BatchNorm2d)"),
    "conv twice": (middle(conv_twice), "'norm2' (BatchNorm2d) reads Module 'conv1' (Conv2d)"),
    "layer twice": (
        middle(lambda m, x: F.relu(m.stem_norm(m.conv1(x)))),
        "'stem_norm' (BatchNorm2d) is used",
    ),
    "images": (own(width=3, methods={"forward": plus_images}), "'add' (node add) adds something else"),
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
def test_refusal_names_the_culprit(case):
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
    model = network(family, depth, 1 / 8, image_shape=image_shape)
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
