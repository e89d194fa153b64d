"""A pack on its own stream, its steps compiled and captured where the device can do that."""

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from prunecast.fleet.bench import EAGER, PackBench, Programs, copy_bench, forward, gather, step, update
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


@dataclass(kw_only=True)
class Runner:
    """A bench that can be advanced by any number of steps without waiting for the device."""

    bench: PackBench
    module: nn.Module
    """Whose graph is run: the pack's own, or one that all compiled packs of a shape share."""
    programs: Programs
    stream: torch.cuda.Stream | None
    graphs: dict[int, torch.cuda.CUDAGraph]
    """By number of steps; empty where nothing was captured."""
    captured_on: torch.cuda.Stream | None
    """Kept as long as the graphs, so that nobody else captures there."""
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
        self.bench, self.module, self.programs = faster.bench, faster.module, faster.programs
        self.graphs, self.captured_on = faster.graphs, faster.captured_on

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
                step(self.bench, self.module, self.programs)

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
    """Give a bench a stream and, on a GPU, graphs; what the trial steps changed is put back."""
    device = bench.cursor.device
    on_gpu = device.type == "cuda"
    stream = own_stream(device) if on_gpu else None
    runner = Runner(
        bench=bench, module=module, programs=programs, stream=stream, graphs={}, captured_on=stream
    )
    if stream is not None:
        stream.wait_stream(torch.cuda.current_stream(device))
    with MODULES.alone(), runner.current():
        if on_gpu:
            with trials(device):
                _warm_up(runner, EAGER, bench.pack.module)
        if programs is not EAGER:
            _compile(runner)
        if on_gpu:
            _capture(runner)
        reset(bench)
    runner.rest()
    return runner


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


def _warm_up(runner: Runner, programs: Programs, module: nn.Module) -> None:
    for _ in range(WARM_UPS):
        reset(runner.bench)
        step(runner.bench, module, programs)


def _compile(runner: Runner) -> None:
    """Let the compiler work outside a graph; fall back to what is written."""
    _allow_many_shapes()
    try:
        _warm_up(runner, runner.programs, runner.module)
    except torch.OutOfMemoryError:
        raise
    except Exception as failure:
        LOG.warning("torch.compile failed, so the fleet runs uncompiled: %s", _first_line(failure))
        runner.programs, runner.module = EAGER, runner.bench.pack.module


def _capture(runner: Runner) -> None:
    bench = runner.bench
    pool = None
    try:
        for size in sorted({1, min(STEPS_A_GRAPH, len(bench.rates))}):
            reset(bench)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool, stream=runner.stream, capture_error_mode="thread_local"):
                for _ in range(size):
                    step(bench, runner.module, runner.programs)
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
    slots = [tensor for tensors in bench.slots.values() for tensor in tensors]
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
