import copy

import pytest
import torch
from torch import nn

from prunecast.training.norms import LARGE, NarrowBatchNorm, use_narrow_norms

CPU = torch.device("cpu")


def images_of(channels, side, dtype=torch.float64):
    generator = torch.Generator().manual_seed(channels)
    images = torch.randn(
        -(-LARGE // (channels * side**2)), channels, side, side, generator=generator, dtype=dtype
    )
    return (3 * images + 1).contiguous(memory_format=torch.channels_last)


def narrow(norm):
    own = copy.deepcopy(norm)
    use_narrow_norms(own, CPU)
    return own


def norm_of(channels, **options):
    norm = nn.BatchNorm2d(channels, dtype=torch.float64, **options)
    with torch.no_grad():
        norm.weight.copy_(torch.linspace(-1, 2, channels))
        norm.bias.copy_(torch.linspace(3, -2, channels))
    return norm


@pytest.mark.parametrize(("channels", "side"), [(2, 32), (3, 7), (4, 16), (15, 4)])
def test_few_channels_are_normalised_as_torch_does(channels, side):
    usual = norm_of(channels, momentum=0.3, eps=1e-3)
    fast, images = narrow(usual), images_of(channels, side)
    assert type(fast) is NarrowBatchNorm
    ends = []
    for norm in (usual, fast):
        given = images.clone().requires_grad_()
        outputs = [norm(given), norm(2 * given)]
        outputs.append(norm.eval()(given))
        loss = sum((output * (output + given).sin()).sum() for output in outputs)
        ends.append([*outputs, *torch.autograd.grad(loss, (given, *norm.parameters())), *norm.buffers()])
    for expected, found in zip(*ends, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
        assert found.stride() == expected.stride()


def test_small_batches_and_other_formats_are_left_to_torch():
    usual = norm_of(4)
    fast, images = narrow(usual), images_of(4, 16)
    for given in (images[:8], images.contiguous()):
        assert torch.equal(fast(given), usual(given))


class OwnNorm(nn.BatchNorm2d):
    pass


@pytest.mark.parametrize(
    "norm",
    [
        nn.BatchNorm2d(1),
        nn.BatchNorm2d(16),
        nn.BatchNorm2d(4, affine=False),
        nn.BatchNorm2d(4, track_running_stats=False),
        nn.BatchNorm2d(4, momentum=None),
        OwnNorm(4),
    ],
)
def test_other_norms_stay_as_they_are(norm):
    assert type(narrow(norm)) is type(norm)
    meta = nn.BatchNorm2d(4, device="meta")
    use_narrow_norms(meta, torch.device("cuda"))
    assert type(meta) is nn.BatchNorm2d
