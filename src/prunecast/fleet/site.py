"""What a fleet knows about one kind of network: its shapes, and the runners of each that nobody uses."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from prunecast.fleet.members import Member
from prunecast.fleet.pack import Pack
from prunecast.fleet.ranks import levels_left
from prunecast.fleet.runner import Runner
from prunecast.fleet.shapes import Shape, fitting, shape_of

WASTE = 2.0
"""How many times as wide as its members an uncompiled pack may be before another shape is made."""
COMPILE_FROM = 50_000
"""Steps from which compiling a shape pays: levels that end while that is done beside the training wait for it."""
SPARED_FROM = 400_000
"""Steps times widths of empty slots from which a narrower shape is compiled: they take three minutes on an H200."""
SPARED_FUSED = 20_000
"""The same for fused packs, which are ready within seconds."""


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
    """Whether to compile: as asked for, or None before it is known whether that pays; False once it has failed."""

    def shape(self, members: Sequence[Member], *, fused: bool) -> Shape:
        """The narrowest known shape that holds them, or a new one that just does where that pays."""
        first, own = members[0].level, shape_of(members)
        steps = max(1, first.last - first.first) * max(map(levels_left, members))
        if self.compiling is None:
            self.compiling = steps > COMPILE_FROM
        found = fitting(self.shapes, members, sum(own) + self._spare(own, steps, fused=fused))
        if found is None:
            self.shapes.append(own)
        return found or own

    def _spare(self, shape: Shape, steps: int, *, fused: bool) -> float:
        """The widths that may stay empty for so many steps, because another shape would cost more."""
        if fused:
            return SPARED_FUSED / steps
        return SPARED_FROM / steps if self.compiling else (WASTE - 1) * sum(shape)

    def take(self, shape: Shape) -> Runner | None:
        """An idle runner, if there is one."""
        return self.idle[shape].pop() if self.idle.get(shape) else None

    def drop_idle(self) -> None:
        """Let go of all idle runners."""
        for shape, runners in self.idle.items():
            self.made[shape] -= len(runners)
            runners.clear()

    def shrink(self, shape: Shape) -> None:
        """Make smaller packs than this one from now on."""
        self.budget = max(sum(shape) / 2, min(shape))
        self.shapes = [known for known in self.shapes if sum(known) < sum(shape)]

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
