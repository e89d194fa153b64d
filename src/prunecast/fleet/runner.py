"""A pack on its own stream, its steps compiled and captured where the device can do that."""

import atexit
import contextlib
import gc
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from prunecast.data import Source
from prunecast.fleet.bench import EAGER, PackBench, Programs, copy_bench, forward, gather, step, update
from prunecast.fleet.fused import Examination, FusedStep, examination, on_device
from prunecast.fleet.gates import DEVICE, MODULES
from prunecast.fleet.streams import own_stream

LOG = logging.getLogger(__name__)
WARM_UPS = 3
MANY_SHAPES = 1000
STEPS_A_GRAPH = 8
ONE_KERNEL: dict[str, Any] = {"realize_opcount_threshold": 500}
"""Looking images up, mirroring, moving, scaling and joining them is one kernel; left alone it would be two."""
WAITING = 32
"""Steps between two marks in a stream; the host is never more than two marks ahead of the device."""


Way = Literal["written", "compiled", "fused"]
"""How a step is done: as it is written, as torch compiles that, or by the package's own kernels."""


@dataclass(kw_only=True)
class Runner:
    """A bench that can be advanced by any number of steps without waiting for the device."""

    bench: PackBench
    step: Callable[[], None]
    """One step of the bench, launched kernel by kernel."""
    way: Way
    stream: torch.cuda.Stream | None
    graphs: dict[int, torch.cuda.CUDAGraph]
    """By number of steps; empty where nothing was captured."""
    captured_on: torch.cuda.Stream | None
    """Kept as long as the graphs, so that nobody else captures there."""
    examinations: dict[int, Examination] = field(default_factory=dict)
    """How a fused pack is evaluated, by the identity of the source of examples."""
    faster: "Runner | None" = None
    """One of the same shape with faster steps, ready to take over; another thread puts it here."""

    def upgrade(self) -> None:
        """Go on with faster steps, once there are some, from exactly where these stand."""
        faster = self.faster
        if faster is None:  # and nothing is written then: one may come this very moment
            return
        self.faster = None
        copy_bench(self.bench, faster.bench)
        self.rest()  # what is copied from must not be let go before
        self.bench, self.step, self.way = faster.bench, faster.step, faster.way
        self.graphs, self.captured_on = faster.graphs, faster.captured_on
        self.examinations = faster.examinations  # those at hand launch what belongs to the old bench

    def rest(self) -> None:
        """Wait until the device has done everything: memory is given to others as soon as it is let go."""
        if self.stream is not None:
            self.stream.synchronize()

    def advance(self, steps: int) -> None:
        """Do so many steps from the cursor on."""
        for size in sorted(self.graphs, reverse=True):
            many, steps = divmod(steps, size)
            for _ in range(many):
                with DEVICE.shared():
                    self.graphs[size].replay()
        for _ in range(steps):
            with MODULES.shared():
                self.step()

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """Make everything of this thread go to the runner's stream."""
        with contextlib.nullcontext() if self.stream is None else torch.cuda.stream(self.stream):
            yield

    def mark(self) -> torch.cuda.Event | None:
        """A point in the stream that the host can wait for without turning in circles."""
        if self.stream is None:
            return None
        event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
        event.record(self.stream)
        return event


def make_runner(bench: PackBench, module: nn.Module, programs: Programs) -> Runner:
    """Give a bench a stream and, on a GPU, graphs; what the trial steps changed is put back.

    `module` is whose graph is run: the pack's own, or one that all compiled packs of a shape share.
    """
    written = partial(step, bench, bench.pack.module, EAGER)
    runner = _on_stream(bench, written, "written")
    with MODULES.alone(), runner.current():
        if runner.stream is not None:
            with trials(bench.cursor.device):
                _warm_up(bench, written)
        if programs is not EAGER:
            _compile(runner, partial(step, bench, module, programs))
        _capture(runner)
        reset(bench)
    runner.rest()
    return runner


def make_fused_runner(fused: FusedStep, test: Source) -> Runner:
    """The same for steps by the package's own kernels, which need neither trials nor modules."""
    runner = _on_stream(fused.bench, fused, "fused")
    with MODULES.alone(), runner.current():
        _warm_up(fused.bench, fused)
        _capture(runner)
        for source in {id(own): own for own in (fused.source, test)}.values():
            if on_device(source) and source.image_shape == fused.source.image_shape:
                own = examination(fused, source, shared=source is not fused.source)
                runner.examinations[id(source)] = own
        reset(fused.bench)
    runner.rest()
    return runner


def _on_stream(bench: PackBench, step: Callable[[], None], way: Way) -> Runner:
    device = bench.cursor.device
    stream = own_stream(device) if device.type == "cuda" else None
    if stream is not None:
        stream.wait_stream(torch.cuda.current_stream(device))
        _leave_the_rest_to_the_system()
    return Runner(bench=bench, step=step, way=way, stream=stream, graphs={}, captured_on=stream)


@cache
def _leave_the_rest_to_the_system() -> None:
    """Let Python's last collection leave what is still there: taking graphs and modules apart then ended in a crash."""
    atexit.register(gc.freeze)


@contextlib.contextmanager
def trials(device: torch.device) -> Iterator[None]:
    """Let the library of convolutions try all its algorithms out, and remember the best for this thread.

    It waits for the whole device after each, which takes minutes while others use it; so nobody may.
    """
    with DEVICE.alone():
        torch.cuda.synchronize(device)
        before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, True
        try:
            yield
            torch.cuda.synchronize(device)
        finally:
            torch.backends.cudnn.benchmark = before


def _warm_up(bench: PackBench, step: Callable[[], None]) -> None:
    for _ in range(WARM_UPS):
        reset(bench)
        step()


def _compile(runner: Runner, compiled: Callable[[], None]) -> None:
    """Let the compiler work outside a graph; fall back to what is written."""
    _allow_many_shapes()
    try:
        _warm_up(runner.bench, compiled)
    except torch.OutOfMemoryError:
        raise
    except Exception as failure:
        LOG.warning("torch.compile failed, so the fleet runs uncompiled: %s", _first_line(failure))
    else:
        runner.step, runner.way = compiled, "compiled"


def _capture(runner: Runner) -> None:
    bench = runner.bench
    if runner.stream is None:
        return
    pool = None
    try:
        for size in sorted({1, min(STEPS_A_GRAPH, len(bench.rates))}):
            reset(bench)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool, stream=runner.stream, capture_error_mode="thread_local"):
                for _ in range(size):
                    runner.step()
            pool = graph.pool()
            runner.graphs[size] = graph
    except torch.OutOfMemoryError:
        raise
    except Exception as failure:
        LOG.warning("The step cannot be captured, so every kernel is launched: %s", _first_line(failure))
        runner.graphs.clear()


@torch.no_grad()
def reset(bench: PackBench) -> None:
    """Nothing learnt, nothing remembered: the optimizer's memory, cursor and sums at zero; copies renewed."""
    slots = [tensor for tensors in bench.optimizer_state.values() for tensor in tensors]
    for tensor in (*slots, bench.cursor, bench.losses, bench.healthy):
        tensor.zero_()
    renew(bench)


@torch.no_grad()
def renew(bench: PackBench) -> None:
    """Make the copies that the forward pass reads equal to the parameters."""
    for low, high in zip(bench.trained, bench.parameters, strict=True):
        if low is not high:
            low.copy_(high)


def compiled_programs() -> Programs:
    """The parts of a step, each compiled on its first call, once per shape of pack."""
    return Programs(
        gather=torch.compile(gather, dynamic=False, options=ONE_KERNEL),
        forward=torch.compile(forward, dynamic=False),
        update=torch.compile(update, dynamic=False),
    )


def _allow_many_shapes() -> None:
    """Let the compiler go on after the eighth shape; newer versions of torch remember this for one thread only."""
    import torch._dynamo

    config = torch._dynamo.config
    for limit in ("recompile_limit", "accumulated_recompile_limit"):
        if getattr(config, limit, MANY_SHAPES) < MANY_SHAPES:
            setattr(config, limit, MANY_SHAPES)


def to_device(values: Tensor, device: torch.device) -> Tensor:
    """Values on the way to the device, from memory that the device can read while the host goes on."""
    return values.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else values


def _first_line(failure: Exception) -> str:
    return f"{type(failure).__name__}: {failure}".partition("\n")[0]
