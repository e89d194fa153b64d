"""A chain that cannot be packed, trained by the plain loop on a stream of its own beside others."""

import contextlib
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from prunecast.fleet.course import Stopped
from prunecast.fleet.gates import DEVICE, MODULES
from prunecast.fleet.runner import trials
from prunecast.fleet.streams import own_stream
from prunecast.pruning import Chain, Level, Trained, chain_trainer, train_level
from prunecast.training import Trainer, step, written_by

LOG = logging.getLogger(__name__)
WARM_UPS = 3


@dataclass(frozen=True, kw_only=True)
class Lone:
    """One chain's network with all that its steps need; every level is trained on the same one."""

    chain: Chain
    bench: Trainer
    advance: Callable[[], None]
    stream: torch.cuda.Stream | None

    def train(self, level: Level, stop: threading.Event) -> Trained:
        """Train a level as the plain loop does, with its checkpoints; raise `Stopped` when told to stop.

        Nothing is stored then: the plain loop goes on from the ends of stretches only.
        """

        def advance() -> None:
            if stop.is_set():
                raise Stopped
            self.advance()

        with contextlib.nullcontext() if self.stream is None else torch.cuda.stream(self.stream):
            return train_level(self.chain, level, self.bench, advance)


def lone(chain: Chain) -> Lone:
    """Lay out a chain's network on its device."""
    bench = chain_trainer(chain)
    guarded = cast("nn.Module", _Guarded(bench.model))
    bench = replace(bench, model=guarded, forward=guarded)
    if not bench.cursor.is_cuda:
        return Lone(chain=chain, bench=bench, advance=partial(step, bench), stream=None)
    device = bench.cursor.device
    stream = own_stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    return Lone(chain=chain, bench=bench, advance=_Captured(bench, stream), stream=stream)


class _Guarded:
    """A module that is only called while nobody traces."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module

    def __call__(self, images: Tensor) -> Tensor:
        with MODULES.shared():
            scores: Tensor = self._module(images)
            return scores

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


class _Captured:
    """A step as a CUDA graph, captured on the first call while other threads use the device."""

    def __init__(self, bench: Trainer, stream: torch.cuda.Stream) -> None:
        self._bench, self._stream = bench, stream
        self._run: Callable[[], None] | None = None

    def __call__(self) -> None:
        if self._run is None:
            with MODULES.alone(), trials(self._bench.cursor.device):
                self._run = self._captured()
        self._run()

    def _captured(self) -> Callable[[], None]:
        written = written_by(self._bench)
        saved = [tensor.detach().clone() for tensor in written]
        graph = torch.cuda.CUDAGraph()
        try:
            for _ in range(WARM_UPS):
                step(self._bench)
                _copy(saved, written)
            with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
                step(self._bench)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as failure:
            LOG.warning("The step cannot be captured, so every kernel is launched: %s", failure)
            return partial(step, self._bench)
        finally:
            _copy(saved, written)
        return partial(_replay, graph)


def _replay(graph: torch.cuda.CUDAGraph) -> None:
    with DEVICE.shared():
        graph.replay()


@torch.no_grad()
def _copy(values: list[Tensor], targets: list[Tensor]) -> None:
    for value, target in zip(values, targets, strict=True):
        target.copy_(value)
