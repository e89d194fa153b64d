"""A packed module compiles as one graph, and one compiled function serves many packs."""

import pytest
import torch
from fleet_nets import Concatenated, Residual
from fleet_training import randomised
from torch._dynamo.testing import CompileCounter

from prunecast.fleet import pack

SHAPE = (3, 8, 8)


def filled(make, seed):
    members = [randomised(make(1.0), seed + k) for k in range(2)]
    packed = pack(members, image_shape=SHAPE, memory_format=torch.channels_last)
    for slot, member in enumerate(members):
        packed.load(slot, member.state_dict())
    return packed


def tensors(packed):
    return {name: tensor.detach().clone() for name, tensor in packed.module.state_dict().items()}


@pytest.mark.parametrize("make", [Residual, Concatenated])
def test_one_graph_serves_every_pack_of_a_shape(make):
    packs = [filled(make, seed) for seed in (0, 10, 20)]
    counter, images = CompileCounter(), torch.randn(4, packs[0].layout.inputs.size, 8, 8)

    def scores(module, state, x):
        return torch.func.functional_call(module, state, (x,))

    torch._dynamo.reset()
    compiled = torch.compile(scores, backend=counter, fullgraph=True, dynamic=False)
    for packed in packs:
        torch.testing.assert_close(compiled(packs[0].module, tensors(packed), images), packed.module(images))
    assert counter.frame_count == 1


def test_weights_keep_the_memory_format_and_padding_stays_silent():
    packed = filled(Residual, 0)
    assert packed.module.get_parameter("conv2.weight").is_contiguous(memory_format=torch.channels_last)
    images = torch.randn(4, packed.layout.inputs.size, 8, 8)
    other = images.clone()
    other[:, 6:] = 100.0  # the two members read the first six channels
    packed.module.eval()
    assert torch.equal(packed.module(images), packed.module(other))
