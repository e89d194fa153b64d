"""The step as one CUDA graph: two hundred small kernels for the price of one launch."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from prunecast.training.loop import Bench, step

WARM_UPS = 3


def stepper(bench: Bench, *, graph: bool = True) -> Callable[[], None]:
    """One training step as a function: captured where the data lies on a GPU, else as it is written."""
    eager = partial(step, bench)
    capturable = bench.cursor.is_cuda and not bench.source.streams
    return Captured(eager, written_by(bench)) if graph and capturable else eager


def written_by(bench: Bench) -> list[Tensor]:
    """Every tensor that a step changes."""
    slots = [tensor for tensors in bench.slots.values() for tensor in tensors]
    return [*bench.parameters, *bench.model.buffers(), *slots, bench.cursor, bench.loss]


class Captured:
    """A function without arguments, captured on its first call and replayed on every call.

    Capturing needs a few trial runs on a side stream (so that libraries make their choices and reserve their
    memory outside the graph); what they changed is put back, so a captured call does exactly one step.
    """

    def __init__(self, function: Callable[[], None], written: list[Tensor]) -> None:
        """Remember the function and the tensors that it writes; nothing runs yet."""
        self._function = function
        self._written = written
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """Do what the function does."""
        if self._graph is None:
            self._graph = self._capture()
        self._graph.replay()

    @torch.no_grad()
    def _put_back(self, saved: list[Tensor]) -> None:
        for tensor, value in zip(self._written, saved, strict=True):
            tensor.copy_(value)

    def _capture(self) -> torch.cuda.CUDAGraph:
        device = self._written[0].device
        saved = [tensor.detach().clone() for tensor in self._written]
        side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                self._function()
                # The cursor must not run past the end of a short epoch.
                self._put_back(saved)
        torch.cuda.current_stream(device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._function()
        self._put_back(saved)
        return graph
