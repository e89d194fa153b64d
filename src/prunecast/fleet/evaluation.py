"""Evaluation of a pack: every member at once, on examples that all share or on each one's own."""

from collections.abc import Generator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prunecast.data import Source
from prunecast.fleet.members import Member
from prunecast.fleet.pack import join
from prunecast.fleet.runner import Done, Runner
from prunecast.fleet.step import renew_copies, to_device
from prunecast.spec import MODULE_CALLS
from prunecast.training import Score, autocast, evaluation_batch

IMAGES_AT_ONCE = 32_768


def evaluate_members(
    runner: Runner, members: Sequence[Member], places: Sequence[int]
) -> Generator[Done, None, list[dict[str, Score]]]:
    """Every member's scores on the test half, on its own examples, and on those it holds out."""
    renew_copies(runner.trainer)
    chains = [member.chain for member in members]
    dataset = chains[0].dataset
    test = yield from evaluate_pack(runner, dataset.test, np.arange(len(dataset.test)))
    found = [{"test": test[slot]} for slot in places]
    for name in ("examples", "validation"):
        examples = [getattr(chain, name) for chain in chains]
        if len(examples[0]) == 0:
            continue
        indices = np.zeros((runner.trainer.pack.slots, len(examples[0])), dtype=np.int64)
        for slot, chosen in zip(places, examples, strict=True):
            indices[slot] = chosen
        scores = yield from evaluate_pack(runner, dataset.train, indices)
        for part, slot in zip(found, places, strict=True):
            part[name] = scores[slot]
    return found


def evaluate_pack(
    runner: Runner, source: Source, indices: NDArray[np.int64]
) -> Generator[Done, None, list[Score]]:
    """Every slot's score, on examples that all share (count) or on each one's own (slots, count)."""
    chosen = to_device(torch.from_numpy(indices), runner.trainer.cursor.device)
    if (fused_evaluation := runner.evaluations.get(id(source))) is not None:
        wrong, loss = fused_evaluation.counts(chosen)
    else:
        wrong, loss = yield from _counted(runner, source, chosen)
    yield runner.mark()
    count = indices.shape[-1]
    return [
        Score(error=bad / count, loss=total / count)
        for bad, total in zip(wrong.tolist(), loss.tolist(), strict=True)
    ]


def _counted(runner: Runner, source: Source, chosen: Tensor) -> Generator[Done, None, tuple[Tensor, Tensor]]:
    """Wrong answers and sums of losses of every slot, batch by batch, so that other packs can run in between."""
    pack, device = runner.trainer.pack, chosen.device
    wrong = torch.zeros(pack.slots, dtype=torch.int64, device=device)
    loss = torch.zeros(pack.slots, dtype=torch.float64, device=device)
    size = min(evaluation_batch(source), max(100, IMAGES_AT_ONCE // pack.slots))
    before = runner.mark()
    for part in torch.split(chosen, size, dim=-1):
        _add_batch(runner, source, part, wrong, loss)
        yield before  # one batch runs while the next is launched
        before = runner.mark()
    return wrong, loss


@torch.no_grad()
def _add_batch(runner: Runner, source: Source, part: Tensor, wrong: Tensor, loss: Tensor) -> None:
    trainer, pack = runner.trainer, runner.trainer.pack
    images = source.batch(part.flatten(), None).view(-1, part.shape[-1], *source.image_shape)
    images = join(images.expand(pack.slots, *images.shape[1:]), pack.layout.channels, trainer.image_dtype)
    with MODULE_CALLS, autocast(trainer.recipe.precision, part.device):
        pack.module.eval()
        scores = pack.module(images).float().reshape(part.shape[-1], pack.slots, -1)
        pack.module.train()
    labels = source.labels[part.expand(pack.slots, -1)].t()
    wrong += (scores.argmax(2) != labels).sum(0)
    rows = torch.nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), reduction="none")
    loss += rows.view(labels.shape).double().sum(0)
