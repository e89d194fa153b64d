"""The kernels for images, head and optimizer compute what torch computes."""

import pytest
import torch
from cuda_on_cpu import HAS_COMPILER, HostKernels
from torch import Tensor, nn
from torch.nn import functional

from prunecast import spec
from prunecast.data import Draws, MemorySource
from prunecast.fleet.kernels.library import Launch, Library, NoKernels
from prunecast.fleet.kernels.nvrtc import exported, source_text
from prunecast.fleet.kernels.tables import NormRow, PackTable, TensorRow, TrainedTensor, table_of
from prunecast.fleet.kernels.tiling import head_launch, head_parts, images_launch
from prunecast.fleet.step import gather
from prunecast.training import UpdateRule, find_optimizer, optimizer_step

pytestmark = pytest.mark.skipif(
    not HAS_COMPILER, reason="g++, which compiles the kernels for the CPU, is missing"
)

Ranges = list[tuple[int, int]]


@pytest.fixture(scope="module")
def kernels() -> HostKernels:
    return HostKernels(["images.cu", "head.cu", "update.cu"])


def _run(kernels: HostKernels, name: str, launch: Launch, args: list[Tensor | int | float | None]) -> None:
    kernels.launch(name, grid=launch.grid, threads=launch.threads, shared=launch.shared, args=args, order=3)


@pytest.mark.parametrize(
    ("slots", "channels", "size", "colours", "rows"),
    [
        (5, 16, 32, 3, 5),
        (16, 48, 8, 3, 16),
        (256, 768, 4, 3, 256),
        (3, 16, 7, 3, 3),
        (9, 16, 5, 1, 9),
        (4, 16, 6, 3, 1),
    ],
)
@pytest.mark.parametrize("augmented", [True, False])
def test_images_are_those_of_the_plain_step(
    kernels: HostKernels, slots: int, channels: int, size: int, colours: int, rows: int, augmented: bool
) -> None:
    torch.manual_seed(slots)
    batch, positions = 3, 6
    pixels = torch.randint(0, 256, (20, size, size, colours), dtype=torch.uint8)
    labels = torch.zeros(20, dtype=torch.int64)
    source = MemorySource(pixels, labels, mean=torch.rand(colours) * 99, std=torch.rand(colours) * 9 + 50)
    order = torch.randint(0, 20, (rows, positions), dtype=torch.int32)
    draws = Draws(
        flip=torch.rand(slots, positions) < 0.5,
        shift=torch.randint(-3, 4, (slots, positions, 2), dtype=torch.int8),
    )
    cursor = torch.ones(1, dtype=torch.int64)
    out = torch.full((batch, channels // 16, size, size, 16), torch.nan, dtype=torch.bfloat16)
    launch = images_launch(
        batch=batch, slots=slots, height=size, width=size, colours=colours, channels=channels
    )
    drawn = [draws.flip, draws.shift] if augmented else [None, None]
    sizes = [positions, batch, slots, size, size, colours, channels, rows]
    scaling = [source.mean, source.scale]
    _run(kernels, "images", launch, [pixels, *scaling, order, *drawn, cursor, out, *sizes])
    each, own = order.expand(slots, -1), draws if augmented else None
    want, _ = gather(source, each, own, cursor, batch, channels, torch.bfloat16)
    assert torch.equal(out.permute(0, 1, 4, 2, 3).flatten(1, 2), want)


ENDS = {
    "equal": ([(64 * slot, 64) for slot in range(3)], 192),
    "mixed": ([(0, 64), (64, 32), (96, 16), (112, 8), (120, 4)], 128),
    "narrow": ([(4 * slot, 4) for slot in range(37)], 160),
    "odd": ([(0, 3), (3, 5), (9, 70), (79, 1)], 96),
}


def _end(ranges: Ranges, channels: int, *, classes: int = 10, batch: int = 6) -> dict[str, Tensor]:
    torch.manual_seed(channels)
    slots = len(ranges)
    weight = torch.zeros(slots * classes, channels)
    for slot, (first, count) in enumerate(ranges):
        weight[slot * classes : (slot + 1) * classes, first : first + count] = torch.randn(classes, count)
    return {
        "last": torch.randn(batch, channels // 16, 9, 16).bfloat16(),
        "weight": weight.bfloat16(),
        "bias": torch.randn(slots * classes).bfloat16(),
        "ranges": torch.tensor(ranges, dtype=torch.int32),
        "parts": torch.tensor(head_parts(ranges), dtype=torch.int32),
        "labels": torch.randint(0, classes, (50,)),
        "order": torch.randint(0, 50, (slots, 3 * batch), dtype=torch.int32),
        "cursor": torch.ones(1, dtype=torch.int64),
    }


def _scores(end: dict[str, Tensor], slots: int) -> Tensor:
    scores = end["last"].float().mean(2).flatten(1) @ end["weight"].float().T + end["bias"].float()
    return scores.unflatten(1, (slots, -1))


@pytest.mark.parametrize("kind", ENDS)
def test_head_is_cross_entropy_and_its_gradient(kernels: HostKernels, kind: str) -> None:
    ranges, channels = ENDS[kind]
    slots, classes, batch = len(ranges), 10, 6
    end = _end(ranges, channels)
    losses, slope = torch.ones(slots), torch.full((batch, channels), torch.nan)
    gradients = torch.zeros_like(end["weight"]).float(), torch.zeros(slots * classes)
    launch = head_launch(ranges, end["parts"].tolist(), batch=batch, channels=channels, classes=classes)
    sizes = [3 * batch, slots, batch, 9, channels, slots, classes]
    _run(kernels, "head", launch, [*end.values(), losses, slope, *gradients, *sizes])

    leaves = {name: end[name].float().requires_grad_() for name in ("last", "weight", "bias")}
    labels = end["labels"][end["order"][:, batch : 2 * batch].long()].t()
    scores = _scores(end | leaves, slots)
    rows = functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), reduction="none")
    want = rows.view(batch, slots).mean(0)
    want.sum().backward()
    torch.testing.assert_close(losses, 1 + want.detach())
    torch.testing.assert_close(slope, leaves["last"].grad[:, :, 4].flatten(1))
    torch.testing.assert_close(gradients[0], leaves["weight"].grad * (end["weight"] != 0))
    torch.testing.assert_close(gradients[1], leaves["bias"].grad)


@pytest.mark.parametrize("shared_order", [True, False])
@pytest.mark.parametrize("kind", ENDS)
def test_head_counts_errors_of_a_partial_batch(kernels: HostKernels, kind: str, shared_order: bool) -> None:
    ranges, channels = ENDS[kind]
    slots, classes, batch, count = len(ranges), 10, 6, 11
    end = _end(ranges, channels)
    end["order"] = end["order"][: 1 if shared_order else slots, :count].contiguous()
    wrong, total = torch.ones(slots, dtype=torch.int32), torch.ones(slots)
    launch = head_launch(ranges, end["parts"].tolist(), batch=batch, channels=channels, classes=classes)
    sizes = [
        count,
        len(end["order"]),
        batch,
        9,
        channels,
        slots,
        classes,
        torch.tensor([count], dtype=torch.int32),
    ]
    _run(kernels, "head_scores", launch, [*end.values(), wrong, total, *sizes])

    scores = _scores(end, slots)[: count - batch]
    labels = end["labels"][end["order"][:, batch:].long()].expand(slots, -1).t()
    rows = functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), reduction="none")
    torch.testing.assert_close(total, 1 + rows.view(labels.shape).sum(0))
    assert torch.equal(wrong - 1, (scores.argmax(2) != labels).sum(0).int())


def _trained(parameter: Tensor) -> TrainedTensor:
    mask = (torch.rand(parameter.shape) < 0.7).float()
    return TrainedTensor(parameter=parameter * mask, momentum=torch.randn(parameter.shape) * mask, mask=mask)


def _update(kernels: HostKernels, table: PackTable, rates: Tensor, momentum: float, decay: float) -> None:
    launch = Launch(grid=(len(table.blocks), 1, 1))
    cursor = torch.ones(1, dtype=torch.int64)
    _run(kernels, "update", launch, [table.rows, table.blocks, rates, cursor, momentum, decay, table.step])


def _optimizer_step(parameters, gradients, momenta, masks, rate) -> None:
    recipe = spec.recipe("cifar10").changed({"momentum": 0.9, "weight_decay": 0.01})
    rule = UpdateRule(recipe=recipe, optimizer=find_optimizer(recipe), decayed=(True,) * len(parameters))
    optimizer_step(rule, parameters, gradients, {"momentum": momenta}, masks, rate)


@pytest.mark.parametrize("offset", [0, 1])
def test_update_is_the_optimizer_step(kernels: HostKernels, offset: int) -> None:
    """An offset of one element makes addresses that cannot be read four at a time."""
    torch.manual_seed(0)
    rates = torch.tensor([9.0, 0.1])
    owns = [_trained(torch.randn(count)) for count in (16, 5, 1030, 4096)]
    gradients = [torch.randn(len(own.parameter) + offset)[offset:] for own in owns]
    copies = [torch.zeros(len(own.parameter) + offset).bfloat16()[offset:] for own in owns]
    before = [[own.parameter.clone() for own in owns], [own.momentum.clone() for own in owns]]
    masks = [own.mask for own in owns]
    wanted = [gradient.clone() for gradient in gradients]
    rows = [
        TensorRow(trained=own, gradient=gradient, copy=copy, clear=gradient is not gradients[1])
        for own, gradient, copy in zip(owns, gradients, copies, strict=True)
    ]
    _update(kernels, table_of(rows, device="cpu", step=1024), rates, 0.9, 0.01)
    _optimizer_step(before[0], wanted, before[1], masks, rates[1])
    for own, copy, parameter, momentum in zip(owns, copies, *before, strict=True):
        torch.testing.assert_close(own.parameter, parameter)
        torch.testing.assert_close(own.momentum, momentum)
        assert torch.equal(copy, own.parameter.bfloat16())
    assert [bool(gradient.any()) for gradient in gradients] == [False, True, False, False]


def _norm(channels: int, batch: int, area: int) -> tuple[nn.BatchNorm2d, NormRow, Tensor]:
    """A batch norm in training mode that was run and differentiated, and the row of the same from its sums."""
    norm = nn.BatchNorm2d(channels, eps=1e-3, momentum=0.3)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.running_mean)
    images = torch.randn(batch, channels, area, 1) * 2 + 1
    slope = torch.randn_like(images)
    row = NormRow(
        scale=_trained(norm.weight.detach()),
        shift=_trained(norm.bias.detach()),
        running_mean=norm.running_mean.clone(),
        running_var=norm.running_var.clone(),
        sums=torch.stack([each.sum((0, 2, 3)) for each in (images, images**2, slope, slope * images)]),
        values=batch * area,
        eps=norm.eps,
        momentum=norm.momentum,
    )
    norm(images).backward(slope)
    return norm, row, row.sums.clone()


def test_update_of_norms_is_torchs(kernels: HostKernels) -> None:
    torch.manual_seed(0)
    made = [_norm(channels, batch, area) for channels, batch, area in ((16, 4, 9), (300, 2, 4))]
    rates = torch.tensor([9.0, 0.1])
    rows = [row for _, row, _ in made]
    owns = [own for row in rows for own in (row.scale, row.shift)]
    parameters, momenta = [own.parameter.clone() for own in owns], [own.momentum.clone() for own in owns]
    gradients = [each.grad for norm, _, _ in made for each in (norm.weight, norm.bias)]
    _update(kernels, table_of(rows, device="cpu", step=128), rates, 0.9, 0.01)
    masks = [own.mask for own in owns]
    _optimizer_step(parameters, gradients, momenta, masks, rates[1])
    for own, parameter, momentum in zip(owns, parameters, momenta, strict=True):
        torch.testing.assert_close(own.parameter, parameter, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(own.momentum, momentum, atol=1e-4, rtol=1e-4)
    for norm, row, _ in made:
        torch.testing.assert_close(row.running_mean, norm.running_mean)
        torch.testing.assert_close(row.running_var, norm.running_var)
        assert not row.sums.any()


def test_still_gives_running_statistics_as_sums_of_one_value(kernels: HostKernels) -> None:
    torch.manual_seed(0)
    made = [_norm(channels, 2, 4) for channels in (16, 300)]
    plain = TensorRow(trained=_trained(torch.randn(7)), gradient=torch.randn(7))
    table = table_of([made[0][1], plain, made[1][1]], device="cpu")
    _run(kernels, "still", Launch(grid=(3, 1, 1)), [table.rows])
    for _, row, before in made:
        torch.testing.assert_close(row.sums[0], row.running_mean)
        torch.testing.assert_close(row.sums[1] - row.sums[0] ** 2, row.running_var)
        assert torch.equal(row.sums[2:], before[2:])


def test_finish_counts_healthy_steps(kernels: HostKernels) -> None:
    losses = torch.tensor([1.0, torch.nan, torch.inf, -torch.inf, 0.0] * 80)
    healthy, cursor = torch.full((400,), 2, dtype=torch.int32), torch.tensor([2**40])
    _run(kernels, "finish", Launch(grid=(1, 1, 1)), [losses, healthy, cursor, 400])
    assert healthy.tolist() == [3, 2, 2, 2, 3] * 80
    assert cursor.item() == 2**40 + 1


def test_sources_stand_alone() -> None:
    """What is handed to the compiler on a device includes nothing more, and everything once."""
    for name in ("images.cu", "head.cu", "update.cu"):
        text = source_text(name)
        assert '#include "' not in text
        assert text.count("typedef unsigned short uint16_t") == 1
        assert exported(text)


def test_no_kernels_without_a_gpu() -> None:
    with pytest.raises(NoKernels, match="need an NVIDIA GPU; cpu is none"):
        Library("images.cu", device="cpu")
