"""Evaluation of a pack by the kernels, several batches per CUDA graph to save the host's time."""

from dataclasses import dataclass

import torch
from torch import Tensor

from prunecast.data import MemorySource
from prunecast.fleet.kernels.step import EvaluationBuffers, FusedStep

BATCHES_PER_GRAPH = 8


@dataclass(frozen=True, kw_only=True)
class FusedEvaluation:
    """The evaluation of a pack on examples of one source."""

    fused: FusedStep
    buffers: EvaluationBuffers
    graph: torch.cuda.CUDAGraph | None

    def counts(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Launch the evaluation of examples that all share (count) or of each slot's own (slots, count).

        Returns every slot's wrong answers and its sum of losses, once the stream has come so far.
        """
        buffers, count = self.buffers, indices.shape[-1]
        buffers.order[:, :count].copy_(indices)
        buffers.count.fill_(count)
        for tensor in (buffers.cursor, buffers.wrong, buffers.losses):
            tensor.zero_()
        self.fused.freeze_norms()
        batches = -(-count // self.fused.passes.batch)
        if self.graph is None:
            for _ in range(batches):
                self.fused.evaluate_batch(buffers)
        else:
            for _ in range(-(-batches // BATCHES_PER_GRAPH)):  # batches after the last count nothing
                self.graph.replay()
        self.fused.unfreeze_norms()
        return buffers.wrong.clone(), buffers.losses.clone()


def fused_evaluation(fused: FusedStep, source: MemorySource, *, shared: bool) -> FusedEvaluation:
    """Allocate tensors, and capture on a GPU; `shared` if all slots are evaluated on the same examples."""
    device, slots = fused.trainer.cursor.device, fused.trainer.pack.slots
    buffers = EvaluationBuffers(
        source=source,
        order=torch.zeros((1 if shared else slots, len(source)), dtype=torch.int32, device=device),
        count=torch.zeros(1, dtype=torch.int32, device=device),
        cursor=torch.zeros(1, dtype=torch.int64, device=device),
        wrong=torch.zeros(slots, dtype=torch.int32, device=device),
        losses=torch.zeros(slots, device=device),
    )
    return FusedEvaluation(
        fused=fused, buffers=buffers, graph=_captured(fused, buffers) if device.type == "cuda" else None
    )


def _captured(fused: FusedStep, buffers: EvaluationBuffers) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.current_stream(buffers.cursor.device)
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        for _ in range(BATCHES_PER_GRAPH):
            fused.evaluate_batch(buffers)
    return graph
