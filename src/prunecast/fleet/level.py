"""One level of all members of a pack, from their starts to their ends, or until one has diverged.

It is trained by a coroutine that yields whenever it would have to wait for the device or for a host thread, so that one
thread can advance several packs in turn. Host threads are given host memory only.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeVar

import torch
from torch import Tensor

from prunecast.fleet.evaluation import evaluate_members
from prunecast.fleet.members import EpochData, Member, draw_epochs
from prunecast.fleet.pack import Contents, Pack, PackLayout
from prunecast.fleet.runner import Done, Mark, Runner
from prunecast.fleet.slots import InSlot, Shape, in_slots
from prunecast.fleet.stack import Noise
from prunecast.fleet.step import PackTrainer, reset, to_device
from prunecast.pruning import Chain, Checkpoint, Trained, device_name, write_checkpoint, write_packed
from prunecast.training import COUNT, State, Timeline, learning_rate, noise_seed, stretches

T = TypeVar("T")
Coroutine = Generator[Done, None, T]
"""A coroutine that yields what it waits for, and returns its result."""
Networks = list[dict[str, Tensor]]
STEPS_PER_MARK = 32
MARKS_AHEAD = 2
"""Maximum number of marks that the host is ahead of the device."""


class LevelStopped(Exception):  # noqa: N818 - nothing broke
    """The fleet must stop in the middle of a level."""


@dataclass(frozen=True, kw_only=True)
class Diverged:
    """A pack in which a number stopped being finite, so that nothing in it can be used."""

    suspects: tuple[int, ...]
    """The members, by their place, that were the first to show it."""
    networks: Networks
    steps: int | None
    """Steps of the level up to where the plain loop would have noticed; None where that is after the last."""
    seconds: float

    def trained(self, member: Member, device: torch.device) -> Trained:
        """The result of the only member, which diverged by itself."""
        return Trained(
            network=self.networks[0],
            diverged=True,
            seconds=self.seconds + member.seconds,
            device=device_name(device),
            steps=self.steps,
        )


@dataclass(frozen=True, kw_only=True)
class LevelResult:
    """A level that all members of a pack have ended."""

    trained: list[Trained]
    rewinds: Networks | None
    """The networks at the rewind point, where some member is at level 0."""


@dataclass(frozen=True, kw_only=True)
class LevelTraining:
    """A level of some members in a runner's pack; members[i] lies in slot places[i]."""

    runner: Runner
    members: Sequence[Member]
    places: Sequence[int]
    host: Executor
    """Runs work that needs no device."""
    stopping: Callable[[], bool]
    """Whether the fleet must stop."""
    shape: Shape = ()
    """The slots of the pack, where some are of sliced networks."""
    checkpoint_seconds: float = math.inf
    """The time between two checkpoints; there is one when the level is stopped, too."""

    @property
    def trainer(self) -> PackTrainer:
        """The tensors that steps read and write."""
        return self.runner.trainer

    @cached_property
    def _in_slots(self) -> list[InSlot | None]:
        return in_slots(self.members, self.shape, self.places)

    def run(self) -> Coroutine[LevelResult | Diverged]:
        """Train the level; raise `LevelStopped`, after storing a checkpoint, if the fleet must stop."""
        began = time.perf_counter()
        trainer, members = self.trainer, self.members
        first, last = members[0].first, members[0].level.last
        pieces = self._pieces()
        drawing = deque(self._draw(piece) for piece in pieces[:2])  # while the members are laid out
        yield from self._begin()
        snapshot = yield from self._steps(began, pieces, drawing)
        healthy = trainer.healthy.tolist()
        counts = [healthy[slot] for slot in self.places]
        networks = self._on_host(trainer.pack.tensors(), last - first)
        rewinds = None if snapshot is None else self._on_host(snapshot, self._times.rewind - first)
        scores = []
        if min(counts) == last - first:
            scores = yield from evaluate_members(self.runner, members, self.places)
        trainer.pack.wipe()
        yield self.runner.mark()  # the next user of the runner finds its stream idle
        ends = yield from result_of(networks)
        starts = None if rewinds is None else (yield from result_of(rewinds))
        finite = yield from result_of(self.host.submit(_are_finite, ends))
        seconds = (time.perf_counter() - began) / len(members)
        suspects = _suspects(counts, finite, last - first)
        overflowed = tuple(
            place for place, score in enumerate(scores) if not math.isfinite(score["test"].loss)
        )
        if suspects or (overflowed and len(members) > 1):
            noticed = _noticed(members[0], min(counts))
            return Diverged(suspects=suspects or overflowed, networks=ends, steps=noticed, seconds=seconds)
        trained = [
            Trained(
                network=network,
                test=score["test"],
                train=score["examples"],
                validation=score.get("validation"),
                seconds=seconds + member.seconds,
                device=device_name(trainer.cursor.device),
            )
            for member, network, score in zip(members, ends, scores, strict=True)
        ]
        return LevelResult(trained=trained, rewinds=starts)

    @property
    def _times(self) -> Timeline:
        return self.members[0].chain.times

    def _begin(self) -> Coroutine[None]:
        """Lay the members into their slots, as their levels or their checkpoints begin."""
        trainer = self.trainer
        filled = self.host.submit(_contents, trainer.pack.layout, self.members, self.places, self._in_slots)
        contents = yield from result_of(filled)
        state = None
        if any(member.checkpoint for member in self.members):
            laid_out = self.host.submit(
                _optimizer_contents, trainer.pack.layout, self.members, self.places, self._in_slots
            )
            state = yield from result_of(laid_out)
        trainer.pack.fill(contents)
        reset(trainer)
        for kind, tensors in (state or {}).items():
            for tensor, values in zip(trainer.optimizer_state[kind], tensors, strict=True):
                tensor.copy_(values)

    @property
    def _saves_rewind(self) -> bool:
        return any(member.level.level == 0 for member in self.members)

    def _pieces(self) -> "list[Piece]":
        return load_pieces(
            self._times,
            self.members[0].first,
            self.members[0].level.last,
            room=len(self.trainer.rates),
            cut=self._times.rewind if self._saves_rewind else None,
        )

    def _draw(self, piece: "Piece") -> "Future[EpochData]":
        """Let a host thread draw the examples of a piece."""
        of_slots: list[Chain | None] = [None] * self.trainer.pack.slots
        for member, slot in zip(self.members, self.places, strict=True):
            of_slots[slot] = member.chain
        return self.host.submit(draw_epochs, of_slots, piece.epochs)

    def _steps(
        self, began: float, pieces: "Sequence[Piece]", drawing: "deque[Future[EpochData]]"
    ) -> Coroutine[dict[str, Tensor] | None]:
        """All steps; returns a copy of the pack at the rewind point, where some member passes it at level 0.

        The examples of the first pieces are being drawn; those of later ones are drawn while earlier ones train.
        """
        snapshot: dict[str, Tensor] | None = None
        ahead = _StepsAhead(self.runner)
        saved = time.perf_counter()
        for number, piece in enumerate(pieces):
            epochs = yield from result_of(drawing.popleft())
            drawing.extend(self._draw(following) for following in pieces[number + 2 : number + 3])
            if piece.begin == self._times.rewind and self._saves_rewind:
                snapshot = _copied(self.trainer.pack)
            load_piece(self.runner, epochs, self.members[0].chain, piece)
            healthy = yield from ahead.advance(self._launches(piece))
            if not healthy:
                break
            reached = self.members[0].first + ahead.steps
            at_end = reached == self.members[0].level.last
            stop = self.stopping() and not at_end
            due = time.perf_counter() - saved > self.checkpoint_seconds and not at_end
            if stop or due:
                yield from ahead.finish()
                if ahead.steps:
                    yield from self._save(reached, began, snapshot)
                saved = time.perf_counter()
            if stop:
                raise LevelStopped
        yield from ahead.finish()
        return snapshot

    def _launches(self, piece: "Piece") -> Iterator[int]:
        """Numbers of steps to be launched together, up to the end of a piece or until the fleet must stop.

        Members that draw noise start again with every stretch, as the plain loop does, and are stopped between two.
        """
        noise, whole = self.trainer.noise, [(piece.begin, piece.end)]
        for begin, end in whole if noise is None else stretches(self._times, piece.begin, piece.end):
            for first in range(begin, end, STEPS_PER_MARK):
                if self.stopping() and (noise is None or first == begin):
                    return
                if noise is not None and first == begin:
                    self._restart(noise, begin)
                yield min(STEPS_PER_MARK, end - first)

    def _restart(self, noise: Noise, begin: int) -> None:
        """Let members draw the noise of the stretch that begins with a step."""
        for member, slot in zip(self.members, self.places, strict=True):
            noise.generators[slot].manual_seed(noise_seed(member.chain.spec.replicate, begin))

    def _save(self, step: int, began: float, snapshot: dict[str, Tensor] | None) -> Coroutine[None]:
        """Store the members' progress, unless a number is no longer finite; the end of the level reports that."""
        trainer, first = self.trainer, self.members[0].first
        if not bool(torch.isfinite(trainer.losses).all()):
            return
        networks = self._on_host(trainer.pack.tensors(), step - first)
        rewinds = None if snapshot is None else self._on_host(snapshot, self._times.rewind - first)
        state = {
            kind: [tensor.detach().to("cpu", copy=True) for tensor in tensors]
            for kind, tensors in trainer.optimizer_state.items()
        }
        ends = yield from result_of(networks)
        starts = None if rewinds is None else (yield from result_of(rewinds))
        seconds = (time.perf_counter() - began) / len(self.members)
        write = partial(
            _write_checkpoints, trainer.pack.layout, self.members, self.places, self._in_slots, state
        )
        yield from result_of(self.host.submit(write, ends, starts, step, seconds))

    def _on_host(self, tensors: Mapping[str, Tensor], steps: int) -> "Future[Networks]":
        """The members' networks as they are alone after `steps` steps, copied here and cut up by a host thread."""
        pack = self.trainer.pack
        host = {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
        counts = [
            {name: count + steps for name, count in (pack.batch_counts[slot] or {}).items()}
            for slot in self.places
        ]
        return self.host.submit(
            _networks, pack.layout, host, self.members, self.places, self._in_slots, counts
        )


class _StepsAhead:
    """Keeps the host slightly ahead of the device, and checks that losses are finite."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._marks: deque[tuple[Mark, Tensor]] = deque()
        self._healthy = True
        self.steps = 0
        """How many were launched."""

    def advance(self, launches: Iterable[int]) -> Coroutine[bool]:
        """Do these numbers of steps; False once a loss was found that is not finite, after which none is launched."""
        for steps in launches:
            self._runner.advance(steps)
            self.steps += steps
            losses = self._runner.trainer.losses
            seen = torch.empty(losses.shape, dtype=losses.dtype, pin_memory=losses.is_cuda)
            seen.copy_(losses, non_blocking=True)
            self._marks.append((self._runner.mark(), seen))
            yield from self._wait(MARKS_AHEAD)
            if not self._healthy:
                break
        return self._healthy

    def finish(self) -> Coroutine[None]:
        """Wait for everything that was launched."""
        yield from self._wait(0)
        yield self._runner.mark()

    def _wait(self, left: int) -> Coroutine[None]:
        while len(self._marks) > left:
            mark, seen = self._marks.popleft()
            yield mark
            self._healthy = self._healthy and bool(torch.isfinite(seen).all())


def result_of(future: "Future[T]") -> Coroutine[T]:
    """Wait for a host thread and return what it found, or raise what it raised."""
    if not future.done():
        yield future
    return future.result()


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Steps whose examples lie on the device at the same time: an epoch, or several short ones, or part of them."""

    begin: int
    end: int
    epochs: range
    start: int
    """The first step of the first epoch."""


def load_pieces(times: Timeline, first: int, last: int, *, room: int, cut: int | None) -> list[Piece]:
    """Cut the steps from `first` to before `last` so that the epochs of each piece fit into `room` steps.

    Short epochs come together, because every load costs the host some milliseconds. No piece crosses `cut`.
    """
    many, found = max(1, room // times.epoch), []
    while first < last:
        epoch = first // times.epoch
        end = min(last, (epoch + many) * times.epoch)
        if cut is not None and first < cut < end:
            end = cut
        epochs = range(epoch, -(-end // times.epoch))
        found.append(Piece(begin=first, end=end, epochs=epochs, start=epoch * times.epoch))
        first = end
    return found


@torch.no_grad()
def load_piece(runner: Runner, epochs: EpochData, chain: Chain, piece: Piece) -> None:
    """Bring examples, augmentation and learning rates to the device, and the cursor to where the piece begins."""
    trainer, device, times = runner.trainer, runner.trainer.cursor.device, chain.times
    count = epochs.order.shape[1]
    trainer.order[:, :count].copy_(to_device(epochs.order, device))
    if trainer.draws is not None and epochs.draws is not None:
        for target, values in zip(trainer.draws.tensors(), epochs.draws.tensors(), strict=True):
            target[:, :count].copy_(to_device(values, device))
    steps = range(piece.start, piece.start + len(piece.epochs) * times.epoch)
    rates = [learning_rate(chain.spec.recipe, times, step) for step in steps]
    trainer.rates[: len(rates)].copy_(to_device(torch.tensor(rates, dtype=trainer.rates.dtype), device))
    trainer.cursor.fill_(piece.begin - piece.start)


def _copied(pack: Pack) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in pack.tensors().items()}


def _noticed(member: Member, healthy: int) -> int | None:
    """Steps of the level up to the end of the stretch in which a loss stopped being finite."""
    level, bad = member.level, member.first + healthy
    ends = (end for _, end in stretches(member.chain.times, member.first, level.last) if end > bad)
    return next((end - level.first for end in ends), None)


def _suspects(counts: Sequence[int], finite: Sequence[bool], steps: int) -> tuple[int, ...]:
    """The members whose losses stopped being finite first, or whose final weights are not finite; usually none."""
    if min(counts) < steps:
        return tuple(place for place, count in enumerate(counts) if count == min(counts))
    return tuple(place for place, good in enumerate(finite) if not good)


# What host threads do: nothing here touches the device.


def _contents(
    layout: PackLayout, members: Sequence[Member], places: Sequence[int], in_slots: Sequence[InSlot | None]
) -> Contents:
    """The members as their levels or their checkpoints begin, laid out as the pack holds them."""
    found = {}
    for member, slot, own in zip(members, places, in_slots, strict=True):
        start = member.checkpoint.state if member.checkpoint else member.level
        network, masks = start.network, member.level.masks
        if own is not None:
            state = own.into(State(network=network, optimizer_state={}))
            network, masks = state.network, own.masks(masks)
        if layout.whole:  # buffers that a state dict leaves out are the network's own
            network = {**dict(member.chain.untrained.named_buffers()), **network}
        found[slot] = (network, masks)
    return layout.contents(found)


def _optimizer_contents(
    layout: PackLayout, members: Sequence[Member], places: Sequence[int], in_slots: Sequence[InSlot | None]
) -> dict[str, list[Tensor]]:
    """The optimizer state that the members' checkpoints hold, laid out as the pack's parameters."""
    names = layout.parameters
    packed: dict[str, dict[str, Tensor]] = {}
    counts: dict[str, list[Tensor]] = {}
    for member, slot, own in zip(members, places, in_slots, strict=True):
        if member.checkpoint is None:
            continue
        state = member.checkpoint.state
        kept = (own.into(state) if own else state).optimizer_state
        positions = _positions(member)
        for kind in {key.partition("/")[0] for key in kept}:
            if kind == COUNT:  # the same for all, because they have done the same steps
                counts[kind] = [kept[f"{COUNT}/0"]]
                continue
            if kind not in packed:
                packed[kind] = {name: layout.empty(name) for name in names}
            layout.write(packed[kind], slot, {name: kept[f"{kind}/{positions[name]}"] for name in names})
    return {kind: [tensors[name] for name in names] for kind, tensors in packed.items()} | counts


def _networks(
    layout: PackLayout,
    tensors: Mapping[str, Tensor],
    members: Sequence[Member],
    places: Sequence[int],
    in_slots: Sequence[InSlot | None],
    batch_counts: Networks,
) -> Networks:
    """Every member's own network, whole."""
    found = []
    for member, slot, own, counts in zip(members, places, in_slots, batch_counts, strict=True):
        network = layout.read(tensors, slot) | counts
        network = {name: network[name] for name in member.level.network}
        found.append(own.out(State(network=network, optimizer_state={})).network if own else network)
    return found


def _are_finite(networks: Networks) -> list[bool]:
    """For each network, whether all of its numbers are finite."""
    return [all(bool(torch.isfinite(tensor).all()) for tensor in network.values()) for network in networks]


def _write_checkpoints(
    layout: PackLayout,
    members: Sequence[Member],
    places: Sequence[int],
    in_slots: Sequence[InSlot | None],
    optimizer_state: Mapping[str, Sequence[Tensor]],
    networks: Networks,
    rewinds: Networks | None,
    step: int,
    seconds: float,
) -> None:
    """Store the members' training runs in progress in the plain loop's format, so that either can continue them."""
    names = layout.parameters
    for place, (member, slot, own) in enumerate(zip(members, places, in_slots, strict=True)):
        if rewinds is not None:
            store_rewind(member, rewinds[place])
        positions = _positions(member)
        state: dict[str, Tensor] = {}
        for kind, tensors in optimizer_state.items():
            if kind != COUNT:
                part = layout.read(dict(zip(names, tensors, strict=True)), slot)
                state |= {f"{kind}/{positions[name]}": tensor for name, tensor in part.items()}
            else:
                state |= {f"{kind}/{number}": tensor for number, tensor in enumerate(tensors)}
        if own is not None:
            state = own.out(State(network={}, optimizer_state=state)).optimizer_state
        saved = State(network=networks[place], optimizer_state=state)
        checkpoint = Checkpoint(step=step, seconds=seconds + member.seconds, state=saved)
        write_checkpoint(member.chain, member.level, checkpoint)


def store_rewind(member: Member, network: Mapping[str, Tensor]) -> None:
    """Store the network at the rewind point, where the level has one and the method goes back to it."""
    chain, level = member.chain, member.level
    if level.level == 0 and chain.spec.method.retraining == "weight-rewinding":
        write_packed(chain.folder.rewind, network, level.masks, 0)


def _positions(member: Member) -> dict[str, int]:
    """The places of the parameters in the member's own network, by which its checkpoint names them."""
    return {name: place for place, (name, _) in enumerate(member.chain.untrained.named_parameters())}
