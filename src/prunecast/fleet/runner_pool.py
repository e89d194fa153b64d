"""The pool of runners: builds packs, keeps idle ones for reuse, and decides their shapes, widths and how steps run.

Only the device thread uses it.
"""

import gc
import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import torch
from torch import nn

from prunecast import families
from prunecast.fleet.kernels import Unfused, compiler, fused_step, lower, refuse_recipe, variants
from prunecast.fleet.layout import Unpackable
from prunecast.fleet.members import FleetOptions, Member, PackKind
from prunecast.fleet.pack import Arrangement, Pack, pack, single_network
from prunecast.fleet.queue import BUDGET, BUDGET_ON_CPU, PackShape, fitting, levels_left, shape_of
from prunecast.fleet.runner import Runner, StepMode, compiled_programs, make_fused_runner, make_runner
from prunecast.fleet.slots import Shape, SlicedShape, Slot, sliced_shape, widths
from prunecast.fleet.stack import refuse_unstackable, stack
from prunecast.fleet.step import EAGER, Programs, pack_trainer, refuse_unpackable
from prunecast.fleet.streams import streams_left
from prunecast.pruning import Chain
from prunecast.spec import MODULE_CALLS, ChainSpec
from prunecast.text import plural
from prunecast.training import timeline

LOG = logging.getLogger(__name__)
PATH_LOG = logging.getLogger("prunecast.paths")
"""Logs one line per family: how it trains."""
PATHS: Mapping[tuple[Arrangement, StepMode], str] = MappingProxyType(
    {
        ("side by side", "fused"): "in packs, fused",
        ("side by side", "compiled"): "in packs, compiled",
        ("side by side", "eager"): "in packs, eager",
        ("stacked", "compiled"): "in stacks, compiled",
        ("stacked", "eager"): "in stacks, eager",
        ("alone", "eager"): "unpacked, several networks at the same time",
    }
)
CANDIDATE_BUDGETS = (8.0, 16.0, 32.0)
"""Budgets that are timed on a GPU."""
NEAR_THE_BEST = 1.05
"""The usual budget is kept if its time per network is at most this many times the best."""
TIMED_STEPS = 24
LOADED_STEPS = 256
"""Every pack has room for the examples of at least this many steps; several short epochs are loaded at once."""
FUSED_ON = ("cuda",)
"""Types of devices on which packs may be fused."""
STACKED_ON: tuple[str, ...] = ("cpu", "cuda")
"""Types of devices on which stacks were verified to compute what their members compute alone."""
WASTE = 2.0
"""An eager pack may be this many times as wide as its members; beyond that, a new shape is made."""
COMPILE_FROM: Mapping[Arrangement, int] = MappingProxyType(
    {"side by side": 50_000, "stacked": 5_000, "alone": 50_000}
)
"""Steps from which compiling pays. Stacks gain more: a compiled step takes half the time."""
SPARED_FROM = 400_000
"""A narrower shape is compiled if steps times widths of empty slots exceed this: three minutes on an H200."""
SPARED_FUSED = 20_000
"""The same limit for fused packs, which are built within seconds."""
SLICED_ON = ("cpu",)
"""Types of devices on which eager packs of sliced networks were measured to be faster."""
MOST_SLICED = 8
"""The number of shapes of sliced networks that are kept for reuse."""


@dataclass(kw_only=True)
class PacksOfKind:
    """The shapes, idle runners and settings of packs of one kind."""

    arrangement: Arrangement = "side by side"
    shapes: list[PackShape] = field(default_factory=list)
    sliced: list[SlicedShape] = field(default_factory=list)
    """Shapes for networks that lost channels; the one used last is at the end."""
    prototypes: dict[Shape, Pack] = field(default_factory=dict)
    idle: dict[Shape, list[Runner]] = field(default_factory=dict)
    made: dict[Shape, int] = field(default_factory=dict)
    """The number of runners of each shape, idle or in use."""
    bytes: dict[Shape, int] = field(default_factory=dict)
    """The most memory that building a runner of each shape took."""
    budget: float | None = None
    """The total width of a pack, once it was measured or reduced; None before."""
    compiling: bool | None = None
    """Whether to compile: as the options say, or None until it is known whether it pays; False once it has failed."""

    def shape(self, members: Sequence[Member], *, fused: bool) -> PackShape:
        """The narrowest known shape that holds the members, or a new one without empty slots if that pays."""
        first, own = members[0].level, shape_of(members)
        steps = max(1, first.last - first.first) * max(map(levels_left, members))
        if self.compiling is None:
            self.compiling = steps > COMPILE_FROM[self.arrangement]
        found = fitting(self.shapes, members, sum(own) + self._spare(own, steps, fused=fused))
        if found is None:
            self.shapes.append(own)
        return found or own

    def slots(self, members: Sequence[Member]) -> SlicedShape | None:
        """Slots for members without their removed channels; None if that would not pay."""
        found = sliced_shape(members, self.sliced, WASTE)
        if found is not None:
            self.sliced = [*(shape for shape in self.sliced if shape != found), found]
            for shape in self.sliced[:-MOST_SLICED]:
                self._forget(shape)
            self.sliced = self.sliced[-MOST_SLICED:]
        return found

    def keeps(self, shape: Shape) -> bool:
        """Whether a runner of this shape is kept for reuse."""
        return shape in self.sliced or not any(isinstance(slot, Slot) for slot in shape)

    def _forget(self, shape: SlicedShape) -> None:
        self.made[shape] = self.made.get(shape, 0) - len(self.idle.pop(shape, []))
        self.prototypes.pop(shape, None)

    def _spare(self, shape: PackShape, steps: int, *, fused: bool) -> float:
        """The total width of empty slots that is cheaper, for this many steps, than a new shape."""
        if fused:
            return SPARED_FUSED / steps
        return SPARED_FROM / steps if self.compiling else (WASTE - 1) * sum(shape)

    def drop_idle(self) -> None:
        """Release all idle runners."""
        for shape, runners in self.idle.items():
            self.made[shape] -= len(runners)
            runners.clear()

    def shrink(self, shape: Shape) -> None:
        """Make only smaller packs from now on, and forget shapes that are not smaller."""
        total = sum(widths(shape))
        self.budget = max(total / 2, min(widths(shape)))
        self.shapes = [known for known in self.shapes if sum(known) < total]
        self.sliced = [known for known in self.sliced if sum(widths(known)) < total]
        for known in [known for known in self.prototypes if sum(widths(known)) >= total]:
            del self.prototypes[known]


class RunnerPool:
    """All runners of a fleet, by kind and shape."""

    def __init__(self, specs: Sequence[ChainSpec], options: FleetOptions, packs: int | None = None) -> None:
        """Create an empty pool; its buffers will fit the longest epoch of these specs.

        `packs` is the number of packs expected to train at once, by default the most that the options allow.
        """
        self._options, self._packs = options, packs or options.most_packs
        self._kinds: dict[PackKind, PacksOfKind] = {}
        self._programs: Programs | None = None
        self._fusable: dict[tuple[PackKind, float], bool] = {}
        """By kind and the widest network of a pack: wide networks need more shared memory than a block has."""
        self._unfused: dict[tuple[PackKind, float], str] = {}
        """Why packs are not fused, by kind and widest network."""
        self._why: dict[PackKind, list[str]] = {}
        """Why networks of a kind are not packed or stacked."""
        self._logged: set[str] = set()
        self._longest: dict[int, int] = {}
        for times in (timeline(spec.recipe, spec.num_examples) for spec in specs):
            self._longest[times.batch] = max(self._longest.get(times.batch, 0), times.epoch)
        self.building_seconds = 0.0

    def add(self, kind: PackKind, chain: Chain) -> bool:
        """Add a kind, shown by one of its chains; return whether its networks can be packed or stacked."""
        if kind not in self._kinds:
            own = self._arrangement(kind, chain)
            self._kinds[kind] = PacksOfKind(arrangement=own, compiling=self._options.compile)
        return self._kinds[kind].arrangement != "alone"

    def mixes(self, kind: PackKind) -> bool:
        """Whether networks of different widths may share a pack of this kind."""
        return self._kinds[kind].arrangement == "side by side"

    def _arrangement(self, kind: PackKind, chain: Chain) -> Arrangement:
        """The first arrangement that networks of a kind allow: side by side, stacked, alone."""
        image_shape = chain.dataset.train.image_shape
        try:
            refuse_unpackable(kind.recipe)
        except Unpackable as reason:
            LOG.warning("%s of depth %d is not packed: %s", kind.family, kind.depth, reason)
            self._why[kind] = [str(reason)]
            return "alone"
        try:
            with MODULE_CALLS:
                pack([chain.untrained], image_shape=image_shape)
        except Unpackable as reason:
            self._why[kind] = [str(reason)]
        else:
            return "side by side"
        if kind.device.type not in STACKED_ON:
            self._why[kind].append(f"Stacks have not been tried on {kind.device.type}.")
            return "alone"
        try:
            with MODULE_CALLS:
                refuse_unstackable(
                    chain.untrained, image_shape=image_shape, low=_low(kind), device=kind.device
                )
        except Unpackable as reason:
            self._why[kind].append(str(reason))
            LOG.warning(
                "%s of depth %d is not packed: %s", kind.family, kind.depth, " ".join(self._why[kind])
            )
            return "alone"
        return "stacked"

    def budget(self, kind: PackKind, members: Sequence[Member]) -> float | None:
        """The largest total width of a pack, measured if it matters; None if networks train alone."""
        known = self._kinds[kind]
        if known.arrangement == "alone":
            return None
        if known.budget is not None:
            return known.budget
        if kind.device.type != "cuda":
            return self._options.budget or BUDGET_ON_CPU
        total = sum(member.width for member in members)
        useful = [size for size in CANDIDATE_BUDGETS if size < 2 * total]
        if self._options.budget or len(useful) < 2:
            return self._options.budget or BUDGET
        known.budget = self.measured_budget(kind, members, useful)
        return known.budget

    def whole_shape(self, kind: PackKind, members: Sequence[Member]) -> PackShape:
        """The narrowest known shape that holds their whole networks, or a new one without empty slots if that pays."""
        return self._kinds[kind].shape(members, fused=self.fuses(kind, shape_of(members)))

    def shape(self, kind: PackKind, members: Sequence[Member]) -> Shape:
        """The shape that the members train in; removed channels are left out if that is faster."""
        whole = self.whole_shape(kind, members)
        if self._slices(kind, whole) and (sliced := self._kinds[kind].slots(members)) is not None:
            return sliced
        return whole

    def _slices(self, kind: PackKind, shape: PackShape) -> bool:
        """Whether networks that lost channels get narrower slots; slots of a stack all have the same size."""
        side_by_side = self._kinds[kind].arrangement == "side by side"
        slow = not self.compiles(kind, shape) and not self.fuses(kind, shape)
        return side_by_side and slow and kind.device.type in SLICED_ON

    def take(self, kind: PackKind, shape: Shape, chain: Chain) -> Runner | None:
        """An idle runner of this shape, or a new one; None if it must wait until one is given back."""
        known = self._kinds[kind]
        if known.idle.get(shape):
            return known.idle[shape].pop()
        if not self._has_room(known, kind, shape):
            self._drop_idle()
            if known.made.get(shape, 0) > 0:
                return None
        began, before = time.perf_counter(), free_bytes(kind.device)
        runner = self.build(kind, shape, chain)
        if self.compiles(kind, shape) and runner.mode == "eager":
            known.compiling = False
        known.bytes[shape] = max(before - free_bytes(kind.device), known.bytes.get(shape, 0))
        known.made[shape] = known.made.get(shape, 0) + 1
        seconds = time.perf_counter() - began
        self.building_seconds += seconds
        LOG.info("%s is ready after %.1f s (%s).", describe(shape), seconds, runner.mode)
        self._log_path(kind, shape, runner)
        return runner

    def _log_path(self, kind: PackKind, shape: Shape, runner: Runner) -> None:
        """Log once how networks of a kind train, and why not in a faster way."""
        arrangement = self._kinds[kind].arrangement
        reasons = list(self._why.get(kind, []))
        reasons += [own for own in (self._unfused.get((kind, max(widths(shape)))),) if own]
        compilable = kind.device.type == "cuda" and runner.mode == "eager" and arrangement != "alone"
        if compilable and self._options.compile is None:
            reasons.append(f"Compiling pays from {COMPILE_FROM[arrangement]:,} steps of a chain.")
        line = f"{kind.family} of depth {kind.depth} trains {PATHS[arrangement, runner.mode]}."
        if runner.mode != "fused" and reasons:
            line += f" Faster modes are not used: {' '.join(reasons)}"
        if line not in self._logged:
            self._logged.add(line)
            PATH_LOG.info(line)

    def unstack(self, kind: PackKind, failure: Exception) -> bool:
        """Train networks alone after a stack could not be built or run; return False if they were not stacked."""
        known = self._kinds[kind]
        if known.arrangement != "stacked":
            return False
        LOG.warning(
            "A stack of %s of depth %d failed, so its networks train unpacked: %r",
            kind.family,
            kind.depth,
            failure,
        )
        self._why.setdefault(kind, []).append(f"Stacks fail here: {failure}")
        self._drop_idle()
        self._kinds[kind] = PacksOfKind(arrangement="alone", compiling=False)
        return True

    def give_back(self, kind: PackKind, shape: Shape, runner: Runner) -> None:
        """Keep a runner for reuse, unless its arrangement or mode was given up while it trained."""
        known = self._kinds[kind]
        still = {"fused": self.fuses, "compiled": self.compiles}.get(runner.mode)
        given_up = runner.trainer.pack.layout.kind != known.arrangement or (still and not still(kind, shape))
        if given_up or not known.keeps(shape):
            self.discard(kind, shape, runner)
        else:
            known.idle.setdefault(shape, []).append(runner)

    def discard(self, kind: PackKind, shape: Shape, runner: Runner) -> None:
        """Forget a runner; stacks that were given up meanwhile are not counted any more."""
        known = self._kinds[kind]
        if runner.trainer.pack.layout.kind == known.arrangement:
            known.made[shape] = known.made.get(shape, 1) - 1

    def shrink(self, kind: PackKind, shape: Shape) -> None:
        """Release memory after a pack did not fit, and make smaller packs from now on."""
        known = self._kinds[kind]
        known.shrink(shape)
        self._drop_idle()
        total = sum(widths(shape))
        LOG.warning("A pack of width %g does not fit into the memory; trying %g.", total, known.budget)

    def give_up(self, kind: PackKind, shape: Shape, runner: Runner, failure: Exception) -> bool:
        """Give up fusing or compiling after a pack failed; return False if its steps were eager."""
        if runner.mode == "eager":
            return False
        if runner.mode == "fused":
            self._give_up_fusing(kind, shape, failure)
        else:
            LOG.warning("A compiled pack failed, so its members train again uncompiled: %r", failure)
            self._kinds[kind].compiling = False
        self._drop_idle()
        return True

    def compiles(self, kind: PackKind, shape: Shape) -> bool:
        """Whether packs are compiled: on a GPU if they are not fused and it pays, on a CPU if the options say so."""
        known = self._kinds[kind]
        if known.arrangement == "alone" or self.fuses(kind, shape):
            return False
        on_gpu = kind.device.type == "cuda"
        return bool(known.compiling) and (on_gpu or self._options.compile is True)

    def fuses(self, kind: PackKind, shape: Shape) -> bool:
        """Whether packs train with the package's own kernels.

        The answer for a kind and widest network is kept until a fused pack fails.
        """
        key = kind, max(widths(shape))
        side_by_side = self._kinds[kind].arrangement == "side by side"
        if not self._options.fuse or kind.device.type not in FUSED_ON or not side_by_side:
            return False
        if key not in self._fusable:
            try:
                self._try_to_fuse(*key)
            except Exception as reason:  # of any type: a kernel that fails must not end the fleet
                self._give_up_fusing(kind, shape, reason)
            else:
                self._fusable.setdefault(key, True)
        return self._fusable[key]

    def build(self, kind: PackKind, shape: Shape, chain: Chain, *, may_compile: bool = True) -> Runner:
        """A new runner: fused if possible, otherwise compiled if that pays and it `may_compile`, otherwise eager."""
        known = self._kinds[kind]
        if shape not in known.prototypes:
            known.prototypes[shape] = self._prototype(kind, shape, chain)
        prototype = known.prototypes[shape]
        epoch = max(self._longest.get(kind.batch, 1), LOADED_STEPS)
        trainer = pack_trainer(
            prototype.twin(), kind.recipe, kind.dataset.train, batch=kind.batch, epoch=epoch
        )
        if self.fuses(kind, shape):
            try:
                step = fused_step(trainer, compiler(trainer.cursor.device), self._packs)
                return make_fused_runner(step, kind.dataset.test)
            except torch.OutOfMemoryError:
                raise
            except Exception as reason:
                self._give_up_fusing(kind, shape, reason)
        if may_compile and self.compiles(kind, shape):
            return make_runner(trainer, prototype.module, self._compiled())
        return make_runner(trainer, trainer.pack.module, EAGER)

    def clear(self) -> None:
        """Release everything."""
        self._kinds.clear()
        self._programs = None

    def _prototype(self, kind: PackKind, shape: Shape, chain: Chain) -> Pack:
        """An empty pack; all compiled runners of its shape share its module."""
        image_shape, arrangement = kind.dataset.train.image_shape, self._kinds[kind].arrangement
        if arrangement != "side by side":
            (width, *_) = widths(shape)
            own = chain.untrained if chain.spec.width == width else network(kind, width)
            if arrangement == "alone":
                return single_network(own, image_shape=image_shape, device=kind.device)
            with MODULE_CALLS:
                return stack(
                    own,
                    len(shape),
                    image_shape=image_shape,
                    batch=kind.batch,
                    device=kind.device,
                    dtype=_dtype(chain),
                    low=_low(kind),
                )
        slots: tuple[float | Slot, ...] = shape
        networks = {slot: in_slot(kind, slot, chain) for slot in dict.fromkeys(slots)}
        with MODULE_CALLS:
            return pack(
                [networks[slot] for slot in slots],
                image_shape=image_shape,
                smallest_group=self._options.smallest_group,
                device=kind.device,
                dtype=_dtype(chain),
                memory_format=torch.channels_last,
            )

    def _give_up_fusing(self, kind: PackKind, shape: Shape, reason: Exception) -> None:
        """Do not fuse packs with the same widest network any more."""
        width = max(widths(shape))
        self._fusable[kind, width] = False
        self._unfused[kind, width] = str(reason)
        level = logging.INFO if isinstance(reason, Unfused | Unpackable) else logging.WARNING
        names = (kind.family, kind.depth, width)
        LOG.log(level, "Packs of %s of depth %d up to width %g are not fused: %s", *names, reason)

    def _try_to_fuse(self, kind: PackKind, width: float) -> None:
        """Raise the reason why packs cannot be fused, as far as a pack of one network shows it."""
        refuse_recipe(kind.recipe)
        with MODULE_CALLS:
            one = pack([network(kind, width)], image_shape=kind.dataset.train.image_shape)
            program = lower(one, kind.dataset.train.image_shape)
        list(variants(program, kind.device))
        compiler(kind.device)("update.cu", {})

    def _compiled(self) -> Programs:
        if self._programs is None:
            self._programs = compiled_programs()
        return self._programs

    def _has_room(self, known: PacksOfKind, kind: PackKind, shape: Shape) -> bool:
        """Whether there is memory for another runner of a shape, and as much again for evaluation, and a free stream.

        A shape that was never built is taken to be as large as the largest.
        """
        device = kind.device
        if device.type != "cuda":
            return True
        if streams_left() < 2 * self._options.most_packs:
            return False
        free = torch.cuda.mem_get_info(device)[0]
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return free + unused > 2 * known.bytes.get(shape, max(known.bytes.values(), default=0))

    def _drop_idle(self) -> None:
        for known in self._kinds.values():
            known.drop_idle()
        release_memory()

    def measured_budget(self, kind: PackKind, members: Sequence[Member], sizes: Sequence[float]) -> float:
        """Time eager or fused packs of some sizes; keep the usual budget unless another is clearly faster.

        If a pack cannot be built, the usual budget is kept; training will find the member at fault.
        """
        widths, times = sorted((member.width for member in members), reverse=True), dict[float, float]()
        for size in sizes:
            shape = sample_shape(widths, size)
            try:
                times[size] = self._step_seconds(kind, shape, members[0].chain)
            except torch.OutOfMemoryError:
                break
            except Exception as failure:
                LOG.warning(
                    "Packs could not be timed, so they get the usual total width of %g: %r", BUDGET, failure
                )
                return BUDGET
            finally:
                self._kinds[kind].prototypes.pop(shape, None)
        release_memory()
        chosen = best_budget(times)
        measured = ", ".join(f"{size:g}: {1e3 * seconds:.2f} ms" for size, seconds in times.items())
        LOG.info("Packs get a total width of %g (a step takes, per unit of width, %s).", chosen, measured)
        return chosen

    def _step_seconds(self, kind: PackKind, shape: PackShape, chain: Chain) -> float:
        """Seconds of a step per unit of width, of one pack or of several small ones at once."""
        packs = max(1, round(BUDGET / sum(shape)))
        runners = [self.build(kind, shape, chain, may_compile=False) for _ in range(packs)]
        steps = min(len(runners[0].trainer.rates), TIMED_STEPS)
        torch.cuda.synchronize(kind.device)
        seconds = [_advance(runners, steps) / steps / sum(shape) / packs for _ in range(2)]
        del runners
        release_memory()
        return min(seconds)


def _advance(runners: Sequence[Runner], steps: int) -> float:
    """Seconds that all these runners take for some steps at the same time."""
    for runner in runners:
        with runner.current():
            runner.trainer.cursor.zero_()
        runner.synchronize()
    began = time.perf_counter()
    for runner in runners:
        with runner.current():
            runner.advance(steps)
    for runner in runners:
        runner.synchronize()
    return time.perf_counter() - began


def sample_shape(widths: Sequence[float], size: float) -> PackShape:
    """A shape of about this total width, with the members' widths in turn."""
    shape: list[float] = []
    while sum(shape) < size:
        shape.append(widths[len(shape) % len(widths)])
    return tuple(sorted(shape, reverse=True))


def best_budget(times: Mapping[float, float]) -> float:
    """The usual budget, or the fastest if it is clearly faster; half of the smallest if none fit."""
    if not times:
        return min(CANDIDATE_BUDGETS) / 2
    best = min(times, key=lambda size: times[size])
    return BUDGET if times.get(BUDGET, math.inf) <= NEAR_THE_BEST * times[best] else best


def network(kind: PackKind, width: float) -> nn.Module:
    """A network of this kind and width; packs use its graph and shapes, not its weights."""
    return families.build(
        kind.family,
        depth=kind.depth,
        width=width,
        num_classes=kind.dataset.num_classes,
        generator=torch.Generator().manual_seed(0),
        image_shape=kind.dataset.train.image_shape,
    )


def in_slot(kind: PackKind, slot: float | Slot, chain: Chain) -> nn.Module:
    """A network with the shapes of a slot: a whole one, or one with as many units as the slot has room for."""
    if not isinstance(slot, Slot):
        return network(kind, slot)
    whole = chain.untrained if chain.spec.width == slot.width else network(kind, slot.width)
    units = families.find_units(whole, kind.dataset.train.image_shape)
    return units.sliced(whole, units.first(dict(zip(units.names, slot.counts, strict=True))))


def describe(shape: Shape) -> str:
    """The name of a pack in messages."""
    network = "sliced network" if any(isinstance(slot, Slot) for slot in shape) else "network"
    return f"A pack of {plural(len(shape), network)}, width {sum(widths(shape)):g},"


def release_memory() -> None:
    """Free the memory of packs that were dropped; their modules are part of reference cycles."""
    if torch.cuda.is_available():
        gc.collect()
        torch.cuda.empty_cache()


def free_bytes(device: torch.device) -> int:
    """Free bytes on a GPU. torch's cache is emptied first, because capturing a graph empties it, too."""
    if device.type != "cuda":
        return 0
    torch.cuda.empty_cache()
    return torch.cuda.mem_get_info(device)[0]


def _low(kind: PackKind) -> torch.dtype | None:
    return torch.bfloat16 if kind.recipe.precision == "bf16" else None


def _dtype(chain: Chain) -> torch.dtype:
    return next(chain.untrained.parameters()).dtype
