"""The backend for Ray: an existing cluster, or one that it starts on this machine."""

import contextlib
import logging
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from prunecast.errors import PrunecastError
from prunecast.sweep import Backend, Ended, Resources, WorkerSpec, in_one_line, run_worker
from prunecast.text import plural

LOG = logging.getLogger(__name__)
OBJECT_STORE = 100 * 2**20
"""Bytes of shared memory of a cluster that is started here; it holds only descriptions of workers."""
QUIET = {
    "RAY_DEDUP_LOGS_SKIP_REGEX": r"^(Raylet is terminated|A worker died or was killed|The node with node id)",
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
"""Environment variables of Ray: it does not log deaths, which the sweep reports, and sends no usage statistics."""
OLDEST = (2, 52)
"""Ray listens on every network interface. Since this version its ports can require a token."""
AUTHENTICATION, TOKEN = "RAY_AUTH_MODE", "token"
REACH = 5.0
"""Seconds after which an address that does not answer counts as unreachable."""
MORE_TIME = "Give more --minutes, or a recipe with fewer checkpoint_steps."


class RayBackend(Backend):
    """Workers as Ray tasks. Ray does not retry them: the driver starts others in place of those that die."""

    def __init__(self, address: str = "") -> None:
        """The default address is RAY_ADDRESS; without that, a cluster is started here."""
        self._address = address
        self._connection = contextlib.ExitStack()
        self._ray: Any = None
        self._workers: dict[Any, Resources] = {}
        self._warned: set[Resources] = set()

    def __enter__(self) -> Self:
        self._ray = self._connection.enter_context(joined(self._address))
        return self

    def room(self, spec: WorkerSpec) -> int:
        """As many workers as the nodes have room for. If no node is large enough, one worker waits.

        With `at_once` none waits, because it would take the place of one that can run.
        """
        need = spec.resources
        slots = self._slots(need)
        if not slots and need not in self._warned:
            self._warned.add(need)
            LOG.warning("No node of the Ray cluster has %s; these chains wait until one joins.", _words(need))
        return (slots or int(not need.at_once)) - sum(other == need for other in self._workers.values())

    def _slots(self, need: Resources) -> int:
        wanted = {"CPU": need.cpus, "GPU": need.gpus, "memory": (need.memory_gb or 0) * 2**30}
        asked = {kind: amount for kind, amount in wanted.items() if amount}
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        return sum(min(int(node.get(kind, 0) / asked[kind] + 1e-9) for kind in asked) for node in nodes)

    def start(self, spec: WorkerSpec, count: int) -> list[Any]:
        """Submit tasks. A process keeps its GPU memory, so on a GPU it ends with its task."""
        need = spec.resources
        task = self._ray.remote(max_calls=1)(run_worker) if need.gpus else self._ray.remote(run_worker)
        memory = {"memory": int(need.memory_gb * 2**30)} if need.memory_gb else {}
        task = task.options(max_retries=0, num_cpus=need.cpus, num_gpus=need.gpus, **memory)
        described = self._ray.put(spec)
        started = [task.remote(described) for _ in range(count)]
        self._workers |= dict.fromkeys(started, need)
        return started

    def ended(self, seconds: float) -> Iterator[Ended]:
        """Wait for the end of a task."""
        if not self._workers:
            time.sleep(seconds)
            return
        self._ray.wait(list(self._workers), num_returns=1, timeout=seconds)
        refs = list(self._workers)
        for ref in self._ray.wait(refs, num_returns=len(refs), timeout=0)[0]:
            need = self._workers.pop(ref)
            yield self._end(ref, need)

    def _end(self, ref: Any, need: Resources) -> Ended:
        try:
            time_over: bool = self._ray.get(ref)
        except self._ray.exceptions.RayError as failure:
            if not is_death(failure):
                return Ended(worker=ref, refusal=refusal(failure))
            died = f"ended with {in_one_line(failure)[:200].rstrip('.')}"
            return Ended(worker=ref, died=died, whole_node=lost_node(failure))
        if time_over:
            minutes = plural(need.minutes or 0, "minute", "was", "were")
            return Ended(worker=ref, died=f"stopped because its {minutes} over", remedy=MORE_TIME)
        return Ended(worker=ref)

    def stop(self) -> None:
        """Interrupt the tasks, kill those that take too long, and leave the cluster.

        It waits for them to end, because Ray crashes when a task that nothing refers to any more reports its end.
        """
        with self._connection:
            refs = list(self._workers) if self._ray.is_initialized() else []
            grace = max((need.grace for need in self._workers.values()), default=0.0)
            for force, patience in ((False, grace), (True, REACH)):
                with contextlib.suppress(self._ray.exceptions.RayError):  # the cluster may be gone
                    for ref in refs:
                        self._ray.cancel(ref, force=force)
                    if refs:
                        _, refs = self._ray.wait(refs, num_returns=len(refs), timeout=patience)
            self._workers.clear()


def _words(need: Resources) -> str:
    memory = f" and {need.memory_gb:g} GB" if need.memory_gb else ""
    return f"{need.cpus:g} CPUs, {need.gpus:g} GPUs{memory}"


def is_death(failure: Exception) -> bool:
    """Whether a worker, its node or its result was lost, so that another worker can continue."""
    from ray import exceptions as errors

    lost = (errors.WorkerCrashedError, errors.OutOfMemoryError, errors.ObjectLostError)
    return isinstance(failure, lost) or lost_node(failure)


def lost_node(failure: Exception) -> bool:
    """Whether the whole node was lost."""
    from ray.exceptions import NodeDiedError

    return isinstance(failure, NodeDiedError)


def refusal(failure: Exception) -> PrunecastError:
    """The sentence about another failure: a worker's refusal, a node with another set-up, or a lost cluster."""
    from ray.exceptions import LocalRayletDiedError, RayTaskError

    cause = failure.cause if isinstance(failure, RayTaskError) else failure
    words = in_one_line(cause).split(" traceback: ")[0][:300].rstrip(".")
    if isinstance(cause, PrunecastError):
        return type(cause)(*cause.args)
    if isinstance(failure, LocalRayletDiedError):
        return PrunecastError(
            "Ray's node on this machine has died, so the cluster cannot be reached. Nothing finished is "
            "lost: start the node again, and run the same command again."
        )
    if isinstance(failure, RayTaskError):
        remedy = "install the same prunecast, torch and ray on every node"
        return PrunecastError(f"A worker could not start: {words}; {remedy}.")
    return PrunecastError(
        f"Ray gave up: {words}. Nothing finished is lost: check the cluster, and run the same command again."
    )


def ray_module() -> Any:
    """The module ray; an error says how to install it."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as failure:
        raise PrunecastError(
            "--on ray needs Ray, which is not installed here; pip install 'prunecast[ray]'."
        ) from failure
    check_version(ray.__version__)
    return ray


def check_version(version: str) -> None:
    """Refuse a version of Ray with unprotected ports: anyone who reaches one can run code here."""
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise PrunecastError(
            f"Ray {version} is installed here, but --on ray needs {oldest} or later: older versions cannot protect "
            "their ports with a token, so anybody on the network could run code on the cluster; pip install "
            f"'ray>={oldest}'."
        )


@contextlib.contextmanager
def joined(address: str = "") -> Iterator[Any]:
    """Ray, connected to a cluster. An existing connection of this process is used and left open."""
    where = address or os.environ.get("RAY_ADDRESS", "") or "local"
    if where == "local":
        os.environ.setdefault(AUTHENTICATION, TOKEN)  # Ray before 2.60 requires a token only if this is set
    ray = ray_module()
    if ray.is_initialized():
        yield ray
        return
    _connect(ray, where)
    try:
        yield ray
    finally:
        ray.shutdown()


def _connect(ray: Any, where: str) -> None:
    options: dict[str, Any] = {"address": where, "log_to_driver": False, "logging_level": logging.ERROR}
    if where == "local":
        options |= {"include_dashboard": False, "object_store_memory": OBJECT_STORE}
    else:
        _reach(where)
    try:
        # Ray puts the current folder in front of the workers' path, where a torch.py would replace the installed one.
        with contextlib.chdir(Path(__file__).resolve().parents[2]):
            ray.init(**options)
    except Exception as failure:
        ray.shutdown()  # the connection may be half open
        raise _refused(where, failure) from failure


def _reach(where: str) -> None:
    """Refuse an address that does not answer; Ray itself would wait for minutes."""
    host, colon, port = where.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH).close()
    except OSError as failure:
        raise PrunecastError(
            f"No Ray cluster answers at {where} ({failure.strerror or failure}); start one with `ray start "
            "--head`, or give its --address as host:port."
        ) from failure


def _refused(where: str, failure: Exception) -> PrunecastError:
    words = " ".join(str(failure).split())
    if "ersion mismatch" in words:
        remedy = "install the same ray and Python on every node and here"
    elif where == "local":
        remedy = "check whether `ray start --head` works on this machine"
    else:
        remedy = "give the --address of a running cluster as host:port, with the cluster's own token"
    return PrunecastError(f"Ray cannot join the cluster {where!r}: {words.rstrip('.')}; {remedy}.")
