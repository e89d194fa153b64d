"""What follows from a worker's death: another try, half a share at a time, or the end of a chain's tries."""

from collections import Counter
from pathlib import Path

from prunecast.clusters.slurm_arrays import has_log, last_words
from prunecast.clusters.slurm_flights import Chains, Flight
from prunecast.clusters.slurm_worker import Began, began, done
from prunecast.errors import PrunecastError, StoreError
from prunecast.sweep.deaths import TRIES, Deaths
from prunecast.sweep.events import Job, Share
from prunecast.sweep.failures import write_failure

SILENT = 2
"""How many jobs of a node may leave no trace in the store before that is said."""
NOWHERE = "no node"
REMEDIES = {
    "OUT_OF_MEMORY": "give more --memory-gb",
    "TIMEOUT": "give more --minutes, or a recipe with fewer checkpoint_steps",
}


class Setbacks:
    """Counts what was in vain, by the rule of `sweep.deaths`, and looks into what never began.

    A place in the queue may take hours, so the halves of a share go apart after its first death in vain.
    """

    def __init__(self, store: Path) -> None:
        self._store = store
        self._deaths = Deaths(store, whole=1)
        self._silent: Counter[str] = Counter()
        self._unbegun = 0
        self._any_began = False

    def heard(self, words: Began, *, mine: bool) -> None:
        """Take note of a worker's first words; a driver that has lived since knows that it held its lock."""
        self._any_began = True
        if words.locks and mine:
            raise PrunecastError(words.locks)

    def queued_again(self, flight: Flight, chains: Chains) -> bool:
        """Slurm has queued a job again by itself; whether that was in vain too often."""
        now = chains.footprints(flight.share)
        flight.setbacks = flight.setbacks + 1 if now == flight.before else 0
        flight.before, flight.heard = now, False
        return flight.setbacks >= TRIES

    def died(self, flight: Flight, left: Share) -> tuple[list[Share], list[Job]]:
        """What to try again after a death, and which chains have had their last try."""
        if flight.story.get("JobState", "").startswith("CANCELLED") and not flight.given_up:
            how = f"job {flight.job} of this chain was cancelled; the next run goes on with it"
            return [], [self._give_up(job, how) for job in left]
        self._look_into(flight)
        then = self._deaths.after(flight.share, flight.before, left, cost=1 + flight.setbacks)
        lost = [self._give_up(then.lost, self._why(flight, int(then.times)))] if then.lost else []
        return list(then.again), lost

    def _give_up(self, job: Job, how: str) -> Job:
        write_failure(self._store, job.chain.spec, how, "")
        return job

    def _why(self, flight: Flight, times: int) -> str:
        words = done(flight.array.folder, flight.index)
        stopped = f"stopped by {words.stopped}" if words and words.stopped else ""
        state = stopped or flight.story.get("JobState", "its end is not known")
        told = last_words(flight.array, flight.job)
        reason = "TIMEOUT" if stopped else state
        remedy = REMEDIES.get(reason, f"see its log in {flight.array.folder}")
        said = f", and said at last: {told}" if told and not stopped else ""
        return (
            f"the worker of this chain ended {times} times without a checkpoint in between, "
            f"at last job {flight.job} on {_node(flight)} ({state}{said}); {remedy}"
        )

    def _look_into(self, flight: Flight) -> None:
        """Find out why a worker never began: a store it does not see, or a Python that is not there."""
        node = _node(flight)
        if began(flight.array.folder, flight.index):
            self._any_began = True
            return
        if not has_log(flight.array, flight.job) and node != NOWHERE:
            self._silent[node] += 1
            if self._silent[node] >= SILENT:
                raise StoreError(
                    f"{node} does not see the store {self._store}: job {flight.job} could write nothing there; "
                    "the store is a folder every node sees, so give --store a path on a shared file system, "
                    f"or keep the node out with --sbatch exclude={node}."
                )
        self._unbegun += 1
        if self._unbegun >= TRIES and not self._any_began:
            said = last_words(flight.array, flight.job) or "nothing"
            raise PrunecastError(
                f"No worker could begin; the last, job {flight.job} on {node}, said: {said} "
                "(every node needs this Python, with prunecast, at the same path)."
            )


def _node(flight: Flight) -> str:
    words = began(flight.array.folder, flight.index)
    node = words.node if words else flight.story.get("NodeList", "(null)")
    return NOWHERE if node == "(null)" else node
