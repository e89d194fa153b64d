"""A pack on its own stream, with its steps captured as CUDA graphs where the device can do that."""

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from prunecast.data import Source
from prunecast.fleet.device import Mark
from prunecast.fleet.kernels import FusedEvaluation, FusedStep, fused_evaluation, on_device
from prunecast.fleet.step import EAGER, PackTrainer, Programs, forward, gather, reset, step
from prunecast.fleet.streams import ExclusiveStream, exclusive_stream
from prunecast.spec import MODULE_CALLS
from prunecast.training import no_waiting, optimizer_step, state_tensors

LOG = logging.getLogger(__name__)
WARM_UPS = 3
MANY_SHAPES = 1000
STEPS_PER_GRAPH = 8
ONE_KERNEL: dict[str, Any] = {"realize_opcount_threshold": 500}
"""Looking images up, mirroring, moving, scaling and joining them is one kernel; left alone it would be two."""
FIXED_LOOPS: dict[str, Any] = {"loop_ordering_after_fusion": False}
"""torch 2.11 fails with an AssertionError when it reorders the loops of some optimizer steps."""

Way = Literal["written", "compiled", "fused"]
"""How a step runs: as it is written, compiled by torch, or by the package's own kernels."""


@dataclass(kw_only=True)
class Runner:
    """A pack that can be advanced by any number of steps without waiting for the device."""

    trainer: PackTrainer
    step: Callable[[], None]
    """One step, launched kernel by kernel."""
    way: Way
    exclusive_stream: ExclusiveStream[torch.cuda.Stream] | None = None
    """None on a CPU."""
    graphs: dict[int, torch.cuda.CUDAGraph] = field(default_factory=dict)
    """By number of steps; empty where nothing was captured."""
    evaluations: dict[int, FusedEvaluation] = field(default_factory=dict)
    """How a fused pack is evaluated, by the identity of the source of examples."""

    @property
    def stream(self) -> torch.cuda.Stream | None:
        """The stream that everything of this pack runs on."""
        return None if self.exclusive_stream is None else self.exclusive_stream.stream

    def advance(self, steps: int) -> None:
        """Launch this number of steps, from the cursor on."""
        for size in sorted(self.graphs, reverse=True):
            many, steps = divmod(steps, size)
            for _ in range(many):
                self.graphs[size].replay()
        for _ in range(steps):
            with MODULE_CALLS:
                self.step()

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """Make everything that this thread launches go to the runner's stream."""
        with contextlib.nullcontext() if self.stream is None else torch.cuda.stream(self.stream):
            yield

    def mark(self) -> Mark:
        """Mark the current end of the stream."""
        return Mark(self.stream)

    def synchronize(self) -> None:
        """Wait until the device has done everything; released memory is reused at once, so call it before."""
        if self.stream is not None:
            self.stream.synchronize()


def device_tensors(runner: Runner) -> list[Tensor]:
    """Everything that a runner's steps read and write."""
    trainer, labels = runner.trainer, runner.trainer.source.labels
    packed = (*trainer.pack.tensors().values(), *trainer.pack.masks.values(), *trainer.trained)
    return [
        *packed,
        *state_tensors(trainer.optimizer_state),
        trainer.order,
        trainer.rates,
        trainer.cursor,
        trainer.losses,
        trainer.healthy,
        labels,
    ]


def make_runner(trainer: PackTrainer, module: nn.Module, programs: Programs) -> Runner:
    """Give a pack a stream and, on a GPU, graphs; what the trial steps changed is put back.

    `module` is whose graph is run: the pack's own, or one that all compiled packs of a shape share.
    """
    written = partial(step, trainer, trainer.pack.module, EAGER)
    runner = _on_stream(trainer, written, "written")
    with MODULE_CALLS, runner.current():
        capturable = runner.stream is not None
        if capturable:
            with algorithm_trials(trainer.cursor.device):
                capturable = _warm_up_for_capture(trainer, written)
        if programs is not EAGER:
            _compile(runner, partial(step, trainer, module, programs))
        if capturable:
            _capture(runner)
        reset(trainer)
    runner.synchronize()
    return runner


def make_fused_runner(fused: FusedStep, test: Source) -> Runner:
    """Give a pack with steps by the package's own kernels a stream and graphs; it needs neither trials nor modules."""
    runner = _on_stream(fused.trainer, fused, "fused")
    with runner.current():
        _warm_up(fused.trainer, fused)
        _capture(runner)
        for source in {id(source): source for source in (fused.source, test)}.values():
            if on_device(source) and source.image_shape == fused.source.image_shape:
                evaluation = fused_evaluation(fused, source, shared=source is not fused.source)
                runner.evaluations[id(source)] = evaluation
        reset(fused.trainer)
    runner.synchronize()
    return runner


def _on_stream(trainer: PackTrainer, step: Callable[[], None], way: Way) -> Runner:
    device = trainer.cursor.device
    exclusive = exclusive_stream(device) if device.type == "cuda" else None
    if exclusive is not None:
        exclusive.stream.wait_stream(torch.cuda.current_stream(device))
    return Runner(trainer=trainer, step=step, way=way, exclusive_stream=exclusive)


@contextlib.contextmanager
def algorithm_trials(device: torch.device) -> Iterator[None]:
    """Let the library of convolutions try all its algorithms and remember the best, on a device that is idle."""
    torch.cuda.synchronize(device)
    before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, True
    try:
        yield
        torch.cuda.synchronize(device)
    finally:
        torch.backends.cudnn.benchmark = before


def _warm_up(trainer: PackTrainer, step: Callable[[], None]) -> None:
    for _ in range(WARM_UPS):
        reset(trainer)
        step()


def _warm_up_for_capture(trainer: PackTrainer, step: Callable[[], None]) -> bool:
    """Run trial steps; False if a step waits for the device, which a graph cannot contain."""
    _warm_up(trainer, step)
    try:
        with no_waiting():
            reset(trainer)
            step()
    except RuntimeError as failure:
        LOG.warning("The step waits for the device, so every kernel is launched: %s", _in_one_line(failure))
        return False
    return True


def _compile(runner: Runner, compiled: Callable[[], None]) -> None:
    """Compile outside of a graph; if that fails, keep the step as it is written."""
    _allow_many_shapes()
    try:
        _warm_up(runner.trainer, compiled)
    except torch.OutOfMemoryError:
        raise
    except Exception as failure:
        LOG.warning("torch.compile failed, so the fleet runs uncompiled: %s", _in_one_line(failure))
    else:
        runner.step, runner.way = compiled, "compiled"


def _capture(runner: Runner) -> None:
    """Capture one step and several as graphs that share their memory."""
    trainer = runner.trainer
    if runner.stream is None:
        return
    pool = None
    try:
        for size in sorted({1, min(STEPS_PER_GRAPH, len(trainer.rates))}):
            reset(trainer)
            graph = torch.cuda.CUDAGraph()
            for generator in () if trainer.noise is None else trainer.noise.generators:
                graph.register_generator_state(generator)
            with torch.cuda.graph(graph, pool=pool, stream=runner.stream, capture_error_mode="thread_local"):
                for _ in range(size):
                    runner.step()
            pool = graph.pool()
            runner.graphs[size] = graph
    except torch.OutOfMemoryError:
        raise
    except Exception as failure:
        LOG.warning("The step cannot be captured, so every kernel is launched: %s", _in_one_line(failure))
        runner.graphs.clear()


def compiled_programs() -> Programs:
    """The parts of a step, each compiled on its first call, once per shape of pack."""
    return Programs(
        gather=torch.compile(gather, dynamic=False, options=ONE_KERNEL),
        forward=torch.compile(forward, dynamic=False),
        update=torch.compile(optimizer_step, dynamic=False, options=FIXED_LOOPS),
    )


def _allow_many_shapes() -> None:
    """Let torch compile more than eight shapes; newer versions of torch keep this setting per thread."""
    import torch._dynamo

    config = torch._dynamo.config
    for limit in ("recompile_limit", "accumulated_recompile_limit"):
        if getattr(config, limit, MANY_SHAPES) < MANY_SHAPES:
            setattr(config, limit, MANY_SHAPES)


def _in_one_line(failure: Exception) -> str:
    """An exception in one line."""
    return f"{type(failure).__name__}: {failure}".partition("\n")[0]
