"""What a fleet knows about one kind of network: its shapes, and the runners of each that nobody uses."""

from dataclasses import dataclass, field

import torch

from prunecast.fleet.pack import Pack
from prunecast.fleet.runner import Runner
from prunecast.fleet.shapes import Shape


@dataclass(kw_only=True)
class Site:
    """The packs of one kind; who changes or counts them holds the yard's lock."""

    shapes: list[Shape] = field(default_factory=list)
    prototypes: dict[Shape, Pack] = field(default_factory=dict)
    idle: dict[Shape, list[Runner]] = field(default_factory=dict)
    made: dict[Shape, int] = field(default_factory=dict)
    """Runners that there are of each shape, idle ones and those in use."""
    compiled: set[Shape] = field(default_factory=set)
    """Shapes whose steps are compiled, so that another pack of them starts compiled."""
    bytes: dict[Shape, int] = field(default_factory=dict)
    """The most memory that a runner of each shape took."""
    budget: float | None = None
    """Widths added up in one pack, once that was measured or found too large."""
    compiling: bool | None = None
    """Whether compiling pays; None before the first pack, False once it has failed."""

    def take(self, shape: Shape) -> Runner | None:
        """An idle runner, if there is one."""
        return self.idle[shape].pop() if self.idle.get(shape) else None

    def drop_idle(self) -> None:
        """Let go of all idle runners."""
        for shape, runners in self.idle.items():
            self.made[shape] -= len(runners)
            runners.clear()

    def note_compiled(self, shape: Shape, runner: Runner) -> None:
        """Remember that a shape is compiled, or that it cannot be; a fleet that has given up takes no notice."""
        if runner.way == "written":  # it was told why
            self.compiling = False
        elif self.compiling:
            self.compiled.add(shape)


def words(shape: Shape) -> str:
    """How a pack is called when something is told about it."""
    return f"A pack of {len(shape)} networks, width {sum(shape):g},"


def free_bytes(device: torch.device) -> int:
    """Bytes that nothing uses on a GPU; capturing empties the cache, so it must be empty before, too."""
    if device.type != "cuda":
        return 0
    torch.cuda.empty_cache()
    return torch.cuda.mem_get_info(device)[0]
