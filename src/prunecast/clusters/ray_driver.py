"""The sweep on a Ray cluster: a window of shares in flight, and chains that outlive workers and nodes.

Ray places work and tells when it ends. What a chain has done, and whether it is at its end, the store says.
"""

import contextlib
import dataclasses
import sys
import time
from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prunecast.clusters.ray_errors import is_death, mistake, of_a_node
from prunecast.clusters.ray_room import Room
from prunecast.clusters.ray_start import joined
from prunecast.clusters.ray_worker import Errand, Work, run_share
from prunecast.clusters.resources import Resources, most_at_once, needs
from prunecast.clusters.seen import marked
from prunecast.clusters.shares import device_for, shares, work_share
from prunecast.clusters.watch import Watch
from prunecast.pruning import code_version
from prunecast.sweep.deaths import TRIES, Deaths, Footprint, footprints
from prunecast.sweep.events import Failed, Job, Outcome, Progress, Share
from prunecast.sweep.failures import in_one_line, write_failure
from prunecast.text import plural

NODE = 0.25
"""What the loss of a whole node counts for: it is seldom the chain's fault."""
PATIENCE = 5.0
"""Seconds to wait for workers that were told to end."""
PAUSE = 0.5
"""Seconds between two looks at the store, and at how large the cluster is."""


def on_ray(
    jobs: Sequence[Job],
    store: Path,
    *,
    address: str = "",
    resources: Resources | None = None,
    tries: int = TRIES,
    work: Work = work_share,
) -> Generator[Outcome, None, None]:
    """Run jobs on a Ray cluster; one is started here if there is no address and no RAY_ADDRESS.

    `resources` are those of chains whose plan names none. After `tries` workers died over a chain that did not
    get on, it counts as failed. `work` is what a worker does with its share.
    """
    store = store.absolute()
    with joined(address) as ray, marked(store) as mark:
        paths = tuple(str(Path(path).absolute()) for path in sys.path)
        errand = Errand(store=store, mark=mark, code=code_version(), paths=paths, work=work)
        driver = _Driver(ray, [_placed(job) for job in jobs], errand, resources or Resources(), tries)
        try:
            yield from driver.run()
        finally:
            driver.cancel()


def _placed(job: Job) -> Job:
    """The job with its data's place as other processes find it."""
    root = job.chain.root and job.chain.root.absolute()
    return dataclasses.replace(job, chain=dataclasses.replace(job.chain, root=root))


@dataclass(frozen=True, kw_only=True)
class _Flight:
    """A share that Ray has, and where its chains stood when it was sent."""

    share: Share
    need: Resources
    before: tuple[Footprint, ...]


class _Driver:
    """Which shares are in flight, what is still to send, and how often workers died."""

    def __init__(
        self, ray: Any, jobs: Sequence[Job], errand: Errand, resources: Resources, tries: int
    ) -> None:
        self._ray, self._errand, self._resources = ray, errand, resources
        # A process keeps what it has on a GPU, so that one ends with its share.
        self._tasks = {"cpu": ray.remote(run_share), "cuda": ray.remote(max_calls=1)(run_share)}
        self._watch = Watch(errand.store)
        self._flying: dict[Any, _Flight] = {}
        self._deaths = Deaths(errand.store, tries=tries)
        self._look_next = 0.0
        self._room = Room(ray, most_at_once(jobs, resources))
        kinds = {needs(job.chain, resources) for job in jobs}
        workers = self._room.workers(kinds)
        self._waiting: dict[Resources, deque[Share]] = {}
        """Shares still to send, by what their worker needs, the longest first."""
        for share in shares(jobs, resources, workers=workers):
            self._line(share).append(share)

    def run(self) -> Iterator[Outcome]:
        """Send, hear and look until every chain is at its end, has failed, or is in other hands."""
        while any(self._waiting.values()) or self._flying:
            self._send()
            for ref in self._ended():
                yield from self._take(ref, self._flying.pop(ref))
            if time.monotonic() >= self._look_next:
                yield from self._look()

    def cancel(self) -> None:
        """End the workers at once: a store bears that, and only levels in progress are lost.

        Their ends are waited for, because Ray breaks down where it hears from a task that nobody holds any more.
        """
        refs = list(self._flying) if self._ray.is_initialized() else []
        gone = contextlib.suppress(self._ray.exceptions.RayError)  # the cluster may be
        for ref in refs:
            with gone:
                self._ray.cancel(ref, force=True)
        with gone:
            if refs:
                self._ray.wait(refs, num_returns=len(refs), timeout=PATIENCE)
        self._flying.clear()

    def _send(self) -> None:
        """Keep the cluster supplied, and no more than that: a scheduler slows down with all it holds.

        Chains for which there is no node, or no more room, keep no others waiting.
        """
        flying = Counter(flight.need for flight in self._flying.values())
        for need in sorted(self._waiting, key=lambda need: not self._room.slots(need)):
            while self._waiting[need] and self._room.has_more(need, flying):
                self._fly(need, self._waiting[need].popleft())
                flying[need] += 1

    def _fly(self, need: Resources, share: Share) -> None:
        share = tuple(map(self._watch.begin, share))
        before = footprints(share, self._errand.store)
        task = self._tasks[device_for(need)].options(max_retries=0, **_asked(need))
        ref = task.remote(share, self._errand, device_for(need), need.minutes)
        self._flying[ref] = _Flight(share=share, need=need, before=before)

    def _line(self, share: Share) -> deque[Share]:
        """Where a share waits, among those that need the same."""
        return self._waiting.setdefault(needs(share[0].chain, self._resources), deque())

    def _ended(self) -> list[Any]:
        """The shares that Ray is done with, after waiting a moment for the first."""
        first, others = self._ray.wait(list(self._flying), num_returns=1, timeout=PAUSE)
        if not first or not others:
            return list(first)
        more, _ = self._ray.wait(others, num_returns=len(others), timeout=0)
        return [*first, *more]

    def _look(self) -> Iterator[Outcome]:
        """Tell levels of shares in flight; the longer it takes to look, the less often."""
        began = time.monotonic()
        self._room.count()
        for flight in list(self._flying.values()):
            for job in flight.share:
                yield from self._watch.news(job)
        now = time.monotonic()
        self._look_next = now + max(PAUSE, 10 * (now - began))

    def _take(self, ref: Any, flight: _Flight) -> Iterator[Outcome]:
        """Hear what became of a share: its outcomes, a mistake that ends everything, or a death."""
        try:
            outcomes: tuple[Outcome, ...] = self._ray.get(ref)
        except self._ray.exceptions.RayError as failure:
            if not is_death(failure):
                raise mistake(failure) from None
            for job in flight.share:
                yield from self._watch.news(job)
            yield from self._again(flight, set(), failure)
            return
        yield from self._watch.new(outcomes)
        settled = {own.number for own in outcomes if not isinstance(own, Progress) or own.ended}
        yield from self._again(flight, settled, None)

    def _again(self, flight: _Flight, settled: set[int], failure: Exception | None) -> Iterator[Outcome]:
        """Send chains again that neither the worker nor the store knows to be settled, but not for ever."""
        left = tuple(self._watch.left(job for job in flight.share if job.number not in settled))
        going_on = {job.number for job in left}
        for job in flight.share:
            if job.number not in going_on:
                self._watch.forget(job)
        if not left:
            return
        cost = NODE if failure and of_a_node(failure) else 1
        then = self._deaths.after(flight.share, flight.before, left, cost)
        self._line(left).extendleft(reversed(then.again))
        if then.lost:
            self._watch.forget(then.lost)
            yield self._given_up(then.lost, failure)

    def _given_up(self, job: Job, failure: Exception | None) -> Failed:
        minutes = needs(job.chain, self._resources).minutes
        if failure is None and minutes is not None:
            error = (
                f"{plural(minutes, 'minute', 'was', 'were')} over again and again without a new level or checkpoint of "
                "this chain; "
                "give more --minutes, or a recipe with fewer checkpoint_steps"
            )
        else:
            last = f" (the last time: {in_one_line(failure)[:200]})" if failure else ""
            error = (
                f"workers died over this chain again and again, without a new level or checkpoint{last}; "
                "is there memory enough for it?"
            )
        write_failure(self._errand.store, job.chain.spec, error, "")
        return Failed(number=job.number, chain=job.chain, error=error, traceback="")


def _asked(need: Resources) -> dict[str, Any]:
    """Resources in Ray's words; its memory is in bytes."""
    asked: dict[str, Any] = {"num_cpus": need.cpus, "num_gpus": need.gpus}
    return asked if need.memory_gb is None else asked | {"memory": int(need.memory_gb * 2**30)}
