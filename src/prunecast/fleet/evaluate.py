"""Evaluation of a pack: every member at once, on examples that all share or on each one's own."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from prunecast.data import Source
from prunecast.fleet.bench import join
from prunecast.fleet.gates import MODULES
from prunecast.fleet.members import Member
from prunecast.fleet.runner import Runner, renew, to_device
from prunecast.training import Score, autocast

IMAGES_AT_ONCE = 32_768


def examine(runner: Runner, members: Sequence[Member], places: Sequence[int]) -> list[dict[str, Score]]:
    """Every member's scores on the test half, on its own examples, and on those it holds out."""
    renew(runner.bench)
    chains = [member.chain for member in members]
    test = evaluate_pack(runner, chains[0].dataset.test, np.arange(len(chains[0].dataset.test)))
    parts = [{"test": test[slot]} for slot in places]
    for name in ("examples", "validation"):
        own = [getattr(chain, name) for chain in chains]
        if len(own[0]) == 0:
            continue
        indices = np.zeros((runner.bench.pack.slots, len(own[0])), dtype=np.int64)
        for slot, chosen in zip(places, own, strict=True):
            indices[slot] = chosen
        scores = evaluate_pack(runner, chains[0].dataset.train, indices)
        for part, slot in zip(parts, places, strict=True):
            part[name] = scores[slot]
    return parts


@torch.no_grad()
def evaluate_pack(runner: Runner, source: Source, indices: NDArray[np.int64]) -> list[Score]:
    """Every slot's score, on examples that all share (count) or on each one's own (slots, count)."""
    bench, pack = runner.bench, runner.bench.pack
    device = bench.cursor.device
    if (examination := runner.examinations.get(id(source))) is not None:
        return examination.scores(to_device(torch.from_numpy(indices), device))
    wrong = torch.zeros(pack.slots, dtype=torch.int64, device=device)
    loss = torch.zeros(pack.slots, dtype=torch.float64, device=device)
    chosen = to_device(torch.from_numpy(indices), device)
    size = max(100, min(1000, IMAGES_AT_ONCE // pack.slots))
    for part in torch.split(chosen, size, dim=-1):
        with MODULES.shared():
            pack.module.eval()
            own = part.expand(pack.slots, -1)
            images = source.batch(part.flatten(), None).view(-1, part.shape[-1], *source.image_shape)
            images = images.expand(pack.slots, *images.shape[1:])
            with autocast(bench.recipe.precision, device):
                scores = pack.module(join(images, pack.inputs.size, bench.dtype)).float()
            pack.module.train()
        labels = source.labels[own].t()
        wrong += (scores.argmax(2) != labels).sum(0)
        rows = torch.nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), reduction="none")
        loss += rows.view(labels.shape).double().sum(0)
    count = indices.shape[-1]
    return [
        Score(error=bad / count, loss=total / count)
        for bad, total in zip(wrong.tolist(), loss.tolist(), strict=True)
    ]
