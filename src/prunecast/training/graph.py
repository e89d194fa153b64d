"""The step as one CUDA graph: two hundred small kernels for the price of one launch."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial

import torch
from torch import Tensor

from prunecast.training.loop import Trainer, step

WARM_UPS = 3


def stepper(trainer: Trainer, *, graph: bool = True) -> Callable[[], None]:
    """One training step as a function: captured where the data lies on a GPU, else as it is written."""
    eager = partial(step, trainer)
    capturable = trainer.cursor.is_cuda and not trainer.source.streams and trainer.group.size == 1
    return Captured(eager, written_by(trainer)) if graph and capturable else eager


def written_by(trainer: Trainer) -> list[Tensor]:
    """Every tensor that a step changes."""
    optimizer_state = [tensor for tensors in trainer.optimizer_state.values() for tensor in tensors]
    return [*trainer.parameters, *trainer.model.buffers(), *optimizer_state, trainer.cursor, trainer.loss]


class Captured:
    """A function without arguments, captured on its first call and replayed on every call.

    Capturing needs a few trial runs on a side stream (so that libraries make their choices and reserve their
    memory outside the graph); what they changed is put back, so a captured call does exactly one step. A
    function that waits for the device (bytes kept on the host, a user's network that looks at its values)
    is found out in the trials and runs as it is.
    """

    def __init__(self, function: Callable[[], None], written: list[Tensor]) -> None:
        """Remember the function and the tensors that it writes; nothing runs yet."""
        self._function = function
        self._written = written
        self._run: Callable[[], None] | None = None

    def __call__(self) -> None:
        """Do what the function does."""
        if self._run is None:
            self._run = self._captured()
        self._run()

    def _captured(self) -> Callable[[], None]:
        """Replay of the graph, or the function itself where it waits for the host and cannot be captured."""
        device = self._written[0].device
        with torch.cuda.device(device):
            saved = [tensor.detach().clone() for tensor in self._written]
            try:
                self._warm_up(saved)
            except RuntimeError as failure:
                self._put_back(saved)
                warnings.warn(f"The step runs without a CUDA graph, which is slower: {failure}", stacklevel=2)
                return self._function
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self._function()
            self._put_back(saved)
            return graph.replay

    def _warm_up(self, saved: list[Tensor]) -> None:
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for trial in range(WARM_UPS):
                # The first trial may wait for the device, while libraries choose their algorithms.
                with no_waiting() if trial else nullcontext():
                    self._function()
                # The cursor must not run past the end of a short epoch.
                self._put_back(saved)
        torch.cuda.current_stream().wait_stream(side)

    @torch.no_grad()
    def _put_back(self, saved: list[Tensor]) -> None:
        for tensor, value in zip(self._written, saved, strict=True):
            tensor.copy_(value)


@contextmanager
def no_waiting() -> Iterator[None]:
    """Make every operation that waits for the device an error, which would break a capture."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls this mode a prototype
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)
