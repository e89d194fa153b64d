"""A packed network's program computes what its module computes, from the tiles it names."""

import pytest
import torch
from fused_nets import Own
from torch import nn
from torch.nn import functional as F  # noqa: N812

from prunecast.families import build
from prunecast.fleet import pack
from prunecast.fleet.kernels.lowering import lower
from prunecast.fleet.kernels.program import TILE

SHAPE = (3, 16, 16)
MIXED = (1, 1 / 2, 1 / 4, 1 / 8, 1 / 16)


def network(family: str, depth: int, width: float, seed: int = 0) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    options = {"depth": depth, "num_classes": 7, "image_shape": SHAPE, "generator": generator}
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
DEEP += [
    (14, (1 / 16,) * 20, 32)
]  # one channel in the first stage: ordinary convolutions, not depthwise ones


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
