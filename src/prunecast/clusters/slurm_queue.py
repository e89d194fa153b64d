"""The driver's part of Slurm's queue: what it has put there, what still waits for a place, what it cancels."""

import contextlib
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from prunecast.clusters.resources import Resources, most_at_once, needs
from prunecast.clusters.shares import device_for
from prunecast.clusters.slurm_arrays import Array, earlier_arrays, remove, remove_forgotten, written
from prunecast.clusters.slurm_commands import (
    NoAnswerError,
    Row,
    TooManyError,
    cancel,
    largest_array,
    parameters,
    queue,
    set_limit,
    submit,
)
from prunecast.clusters.slurm_flights import Chains, Flight
from prunecast.clusters.slurm_worker import Task, done, work_task
from prunecast.errors import PrunecastError
from prunecast.pruning import code_version
from prunecast.sweep.events import Job, Share

ARRAY = 1000
"""The most elements of an array, where Slurm would allow more."""
BACKLOG = 4
"""How many times what may run at once an array holds, so that a chain that died waits for few others."""
LEAVING = 30
"""How many looks a worker has to leave after its last chain is at its end."""
PATIENCE = 20
"""How many questions in a row Slurm may leave without an answer."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a sweep's chains and its driver's own files are."""

    store: Path
    mark: str
    """The store's identity."""
    driver: Path
    """The folder of this driver."""


class Queue:
    """Shares on their way: those that wait here, and those that Slurm has, at most one array of a kind waiting."""

    def __init__(
        self,
        jobs: Sequence[Job],
        chains: Chains,
        place: Place,
        resources: Resources,
        options: Mapping[str, str],
    ) -> None:
        self._chains, self._place, self._resources = chains, place, resources
        self._parameters = {need: parameters(need, options) for need in map(self.need, jobs)}
        most = most_at_once(jobs, resources)
        self.limit = max(1, most // len(self._parameters)) if most else None
        """The most workers of a kind at the same time."""
        self.waiting: deque[Share] = deque()
        self.flights: dict[tuple[str, int], Flight] = {}
        self._arrays: list[Array] = []
        self._adopted: list[Array] = []
        self._limits: dict[str, int] = {}
        self._most = self._chunk = ARRAY
        self._silence = 0
        self._may_submit = True

    def need(self, job: Job) -> Resources:
        """What the worker of a chain needs."""
        return needs(job.chain, self._resources)

    def mine(self, array: Array) -> bool:
        """Whether this driver has submitted an array, and so has lived ever since."""
        return array in self._arrays

    def begin(self) -> None:
        """Find jobs of these chains that other drivers submitted; remove what is left of those that are over."""
        try:
            backlog = BACKLOG * self.limit if self.limit else ARRAY
            self._most = self._chunk = min(ARRAY, backlog, largest_array())
            arrays = earlier_arrays(self._place.store, self._place.driver)
            rows = queue(array.name for array in arrays)
        except NoAnswerError as silence:
            raise PrunecastError(f"Slurm does not answer ({silence}); try again when it does.") from silence
        queued = {row.name for row in rows}
        remove_forgotten(arrays, queued)
        self._adopted = [array for array in arrays if array.name in queued]
        named = {array.name: array for array in arrays}
        for row in rows:
            share = self._chains.left(self._chains.of(named[row.name].shares[row.index]))
            if share:
                self._take(named[row.name], row.index, row.job, share, row)

    def _take(self, array: Array, index: int, job: str, share: Share, row: Row | None = None) -> None:
        self.flights[array.name, index] = Flight(
            share=share,
            need=self.need(share[0]),
            array=array,
            index=index,
            job=job,
            before=self._chains.footprints(share),
            waits=row is None or row.state == "PENDING",
            restarts=row.restarts if row else 0,
        )

    def submit(self) -> None:
        """Submit a further array for every kind of worker of which none waits in Slurm's queue."""
        self.waiting = deque(left for share in self.waiting if (left := self._chains.left(share)))
        for need in self._parameters:
            alike = [flight for flight in self.flights.values() if flight.need == need]
            room = ARRAY if self.limit is None else self.limit - len(alike)
            chosen = [share for share in self.waiting if self.need(share[0]) == need][: self._chunk]
            if chosen and self._may_submit and room > 0 and not any(map(_in_line, alike)):
                self._submit_array(need, chosen, room)

    def _submit_array(self, need: Resources, chosen: Sequence[Share], room: int) -> None:
        array = written(self._place.driver, len(self._arrays) + 1, chosen)
        self._arrays.append(array)
        tasks = [self._task(array, index, share, need) for index, share in enumerate(chosen)]
        settings = {**self._parameters[need], "array_parallelism": room}
        try:
            names = submit(array.folder, array.name, work_task, tasks, settings)
        except TooManyError as refusal:
            remove(self._arrays.pop())
            self._fewer(len(chosen), refusal)
            return
        except NoAnswerError:
            self._may_submit = False
            return
        self._chunk = min(self._most, 2 * self._chunk)
        self._limits[array.name] = room
        for index, (share, name) in enumerate(zip(chosen, names, strict=True)):
            self.waiting.remove(share)
            self._take(array, index, name, share)

    def _task(self, array: Array, index: int, share: Share, need: Resources) -> Task:
        return Task(
            folder=array.folder,
            index=index,
            share=share,
            store=self._place.store,
            device=device_for(need),
            mark=self._place.mark,
            code=code_version(),
            modules=tuple(str(Path(folder).absolute()) for folder in sys.path),
        )

    def _fewer(self, size: int, refusal: TooManyError) -> None:
        """Ask for half as many the next time; a single one waits until others have left the queue."""
        self._chunk = max(1, size // 2)
        self._most = self._chunk if refusal.always else self._most
        self._may_submit = size > 1
        if size == 1 and not self.flights:
            raise PrunecastError(f"Slurm takes not even one job ({refusal}); mend --sbatch or the resources.")

    def rows(self) -> dict[tuple[str, int], Row] | None:
        """What Slurm has of this driver's, from one question; None if it does not answer at the moment."""
        names = {name for name, _ in self.flights} | {array.name for array in self._arrays[-1:]}
        try:
            found = {(row.name, row.index): row for row in queue(sorted(names))}
        except NoAnswerError as silence:
            self._silence += 1
            if self._silence > PATIENCE:
                hope = "the jobs go on, and the same command finds them"
                raise PrunecastError(f"Slurm does not answer any more ({silence}); {hope}.") from silence
            return None
        self._silence, self._may_submit = 0, True
        cancel([row.job for key, row in found.items() if key not in self.flights])
        return found

    def widen(self) -> None:
        """Let an array that waits have the places that other arrays have left."""
        waiting = {name: flight for (name, _), flight in self.flights.items() if flight.waits}
        for name in waiting.keys() & self._limits.keys():
            need, job = waiting[name].need, waiting[name].job.split("_")[0]
            others = sum(flight.need == need for (own, _), flight in self.flights.items() if own != name)
            if self.limit is not None and self.limit - others > self._limits[name]:
                self._limits[name] = self.limit - others
                set_limit(job, self._limits[name])

    def linger(self, pause: float) -> None:
        """Let workers whose chains are at their end leave by themselves, for a moment."""
        for _ in range(LEAVING):
            if all(flight.waits or not flight.array.own for flight in self.flights.values()):
                return
            time.sleep(pause)
            rows = self.rows()
            for key in set(self.flights) - set(self.flights if rows is None else rows):
                del self.flights[key]

    def close(self) -> None:
        """Cancel what this driver answers for, as it would work for nobody; keep the logs of workers that died."""
        own = {array.name for array in self._arrays}
        taken = {name for (name, _), flight in self.flights.items() if flight.array.own}
        with contextlib.suppress(NoAnswerError):
            rows = [row for row in queue(sorted(own | taken)) if row.name in own or self._has_taken(row)]
            cancel(sorted({row.job.split("_")[0] if row.name in own else row.job for row in rows}))
        for array in [*self._arrays, *self._adopted]:
            self.clean(array)

    def _has_taken(self, row: Row) -> bool:
        flight = self.flights.get((row.name, row.index))
        return flight is not None and flight.array.own

    def clean(self, array: Array) -> None:
        """Remove the folder of an array whose workers have all said how they ended; other logs may be wanted."""
        over = array.own and not any(name == array.name for name, _ in self.flights)
        words = [done(array.folder, index) for index in range(len(array.shares))] if over else [None]
        if all(word and not word.stopped for word in words):
            remove(array)


def _in_line(flight: Flight) -> bool:
    """Whether a job waits for a place; one that Slurm has queued again waits for minutes by rule."""
    return flight.waits and not flight.restarts
