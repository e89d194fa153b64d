"""A pack on its own stream, with its steps captured as CUDA graphs on a GPU."""

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from prunecast.data import Source
from prunecast.fleet.device import StreamEvent
from prunecast.fleet.kernels import FusedEvaluation, FusedStep, fused_evaluation, on_device
from prunecast.fleet.step import EAGER, PackTrainer, Programs, forward, gather, reset, step
from prunecast.fleet.streams import ExclusiveStream, exclusive_stream
from prunecast.spec import MODULE_CALLS
from prunecast.training import no_waiting, optimizer_step, replaced_tensor, state_tensors

LOG = logging.getLogger(__name__)
WARM_UPS = 3
MANY_SHAPES = 1000
STEPS_PER_GRAPH = 8
ONE_KERNEL: dict[str, Any] = {"realize_opcount_threshold": 500}
"""Makes one kernel of looking up, mirroring, shifting, scaling and joining images; by default there are two."""
FIXED_LOOPS: dict[str, Any] = {"loop_ordering_after_fusion": False}
"""torch 2.11 fails with an AssertionError if it may reorder the loops of some optimizer steps."""

StepMode = Literal["eager", "compiled", "fused"]
"""How a step runs: eager, compiled by torch, or fused in the package's own kernels."""


@dataclass(kw_only=True)
class Runner:
    """A pack and its step; it launches any number of steps without waiting for the device."""

    trainer: PackTrainer
    step: Callable[[], None]
    """One step, launched kernel by kernel."""
    mode: StepMode
    exclusive_stream: ExclusiveStream[torch.cuda.Stream] | None = None
    """None on a CPU."""
    graphs: dict[int, torch.cuda.CUDAGraph] = field(default_factory=dict)
    """CUDA graphs by number of steps; empty if nothing was captured."""
    evaluations: dict[int, FusedEvaluation] = field(default_factory=dict)
    """The evaluations of a fused pack, by the `id` of the source of examples."""

    @property
    def stream(self) -> torch.cuda.Stream | None:
        """The stream of this pack; None on a CPU."""
        return None if self.exclusive_stream is None else self.exclusive_stream.stream

    def advance(self, steps: int) -> None:
        """Launch this number of steps, starting at the cursor."""
        for size in sorted(self.graphs, reverse=True):
            many, steps = divmod(steps, size)
            for _ in range(many):
                self.graphs[size].replay()
        for _ in range(steps):
            with MODULE_CALLS:
                self.step()

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """Make the runner's stream the current one."""
        with contextlib.nullcontext() if self.stream is None else torch.cuda.stream(self.stream):
            yield

    def record_event(self) -> StreamEvent:
        """Record an event at the current end of the stream."""
        return StreamEvent(self.stream)

    def synchronize(self) -> None:
        """Wait for the stream. Call it before releasing memory that the stream may still use."""
        if self.stream is not None:
            self.stream.synchronize()


def device_tensors(runner: Runner) -> list[Tensor]:
    """The tensors that a runner's steps read and write."""
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
    """Make the runner of a pack: its stream and, on a GPU, its CUDA graphs. Trial steps are undone.

    `module` is the module that is called: the pack's own, or one that all compiled packs of a shape share.
    """
    eager = partial(step, trainer, trainer.pack.module, EAGER)
    runner = _on_stream(trainer, eager, "eager")
    with MODULE_CALLS, runner.current():
        capturable = runner.stream is not None
        if capturable:
            with algorithm_trials(trainer.cursor.device):
                capturable = _warm_up_for_capture(trainer, eager)
        if programs is not EAGER:
            _compile(runner, partial(step, trainer, module, programs))
        if capturable:
            _capture(runner)
        reset(trainer)
    runner.synchronize()
    return runner


def make_fused_runner(fused: FusedStep, test: Source) -> Runner:
    """Make the runner of a fused pack; it needs no trials of algorithms and calls no module."""
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


def _on_stream(trainer: PackTrainer, step: Callable[[], None], mode: StepMode) -> Runner:
    device = trainer.cursor.device
    exclusive = exclusive_stream(device) if device.type == "cuda" else None
    if exclusive is not None:
        exclusive.stream.wait_stream(torch.cuda.current_stream(device))
    return Runner(trainer=trainer, step=step, mode=mode, exclusive_stream=exclusive)


@contextlib.contextmanager
def algorithm_trials(device: torch.device) -> Iterator[None]:
    """Let cuDNN try its algorithms and remember the fastest, on a device that is idle."""
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
    """Run trial steps; return False if a step cannot be captured: it waits for the device or replaces tensors."""
    before = trainer.pack.tensors()
    _warm_up(trainer, step)
    if name := replaced_tensor(before, trainer.pack.tensors()):
        LOG.warning("The network replaces its tensor %r, so its steps run without a CUDA graph.", name)
        return False
    try:
        with no_waiting():
            reset(trainer)
            step()
    except RuntimeError as failure:
        LOG.warning(
            "The step waits for the device, so it runs without a CUDA graph: %s", _in_one_line(failure)
        )
        return False
    return True


def _compile(runner: Runner, compiled: Callable[[], None]) -> None:
    """Compile the step before it is captured; if that fails, keep the eager step."""
    _allow_many_shapes()
    try:
        _warm_up(runner.trainer, compiled)
    except torch.OutOfMemoryError:
        raise
    except Exception as failure:
        LOG.warning("torch.compile failed, so the pack runs uncompiled: %s", _in_one_line(failure))
    else:
        runner.step, runner.mode = compiled, "compiled"


def _capture(runner: Runner) -> None:
    """Capture one step, and several, as CUDA graphs that share a memory pool."""
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
        LOG.warning("The step cannot be captured, so it runs without a CUDA graph: %s", _in_one_line(failure))
        runner.graphs.clear()


def compiled_programs() -> Programs:
    """The compiled parts of a step; each is compiled at its first call with a shape of pack."""
    return Programs(
        gather=torch.compile(gather, dynamic=False, options=ONE_KERNEL),
        forward=torch.compile(forward, dynamic=False),
        update=torch.compile(optimizer_step, dynamic=False, options=FIXED_LOOPS),
    )


def _allow_many_shapes() -> None:
    """Let torch compile more than eight shapes; newer versions of torch have this setting per thread."""
    import torch._dynamo

    config = torch._dynamo.config
    for limit in ("recompile_limit", "accumulated_recompile_limit"):
        if getattr(config, limit, MANY_SHAPES) < MANY_SHAPES:
            setattr(config, limit, MANY_SHAPES)


def _in_one_line(failure: Exception) -> str:
    """An exception as one line."""
    return f"{type(failure).__name__}: {failure}".partition("\n")[0]
