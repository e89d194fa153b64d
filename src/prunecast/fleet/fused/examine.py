"""Evaluation of a fused pack: batches in graphs, so that the host has nothing to do with each."""

from dataclasses import dataclass

import torch
from torch import Tensor

from prunecast.data import MemorySource
from prunecast.fleet.fused.step import FusedStep, Look

BATCHES_A_GRAPH = 8


@dataclass(frozen=True, kw_only=True)
class Examination:
    """A pack's way to look at examples of one source."""

    fused: FusedStep
    look: Look
    graph: torch.cuda.CUDAGraph | None

    def counts(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Launch the evaluation of examples that all share (count) or of each slot's own (slots, count).

        Returns every slot's wrong answers and its sum of losses, once the stream has come so far.
        """
        look, count = self.look, indices.shape[-1]
        look.order[:, :count].copy_(indices)
        look.count.fill_(count)
        for tensor in (look.cursor, look.wrong, look.losses):
            tensor.zero_()
        self.fused.still()
        batches = -(-count // self.fused.passes.batch)
        if self.graph is None:
            for _ in range(batches):
                self.fused.look(look)
        else:
            for _ in range(-(-batches // BATCHES_A_GRAPH)):  # what lies behind the last counts nothing
                self.graph.replay()
        self.fused.move()
        return look.wrong.clone(), look.losses.clone()


def examination(fused: FusedStep, source: MemorySource, *, shared: bool) -> Examination:
    """Lay out tensors, and capture on a GPU; `shared` where all slots look at the same examples."""
    device, slots = fused.trainer.cursor.device, fused.trainer.pack.slots
    look = Look(
        source=source,
        order=torch.zeros((1 if shared else slots, len(source)), dtype=torch.int32, device=device),
        count=torch.zeros(1, dtype=torch.int32, device=device),
        cursor=torch.zeros(1, dtype=torch.int64, device=device),
        wrong=torch.zeros(slots, dtype=torch.int32, device=device),
        losses=torch.zeros(slots, device=device),
    )
    return Examination(
        fused=fused, look=look, graph=_captured(fused, look) if device.type == "cuda" else None
    )


def _captured(fused: FusedStep, look: Look) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.current_stream(look.cursor.device)
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        for _ in range(BATCHES_A_GRAPH):
            fused.look(look)
    return graph
