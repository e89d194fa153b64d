"""A real Ray cluster of several nodes on this machine, which tests start and kill, and functions for its workers."""

import contextlib
import fcntl
import importlib.util
import json
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

import pytest

from prunecast.errors import BusyError
from prunecast.pruning import Record, chain_folder
from prunecast.sweep import Progress, work

HERE = Path(__file__).parent
STORE_BYTES = 80 * 2**20
SETTINGS = {
    # A token of an earlier local start would be known to some of the processes only.
    "RAY_AUTH_MODE": "disabled",
    # Workers import what tests give them to do from here.
    "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent / "sweep"), os.environ.get("PYTHONPATH", "")]),
    "OMP_NUM_THREADS": "1",
}


def need_ray():
    """Skip the tests of a module if Ray is missing, and say how to install it."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed: pip install 'prunecast[ray]'", allow_module_level=True)


@contextlib.contextmanager
def settings():
    """A folder for Ray's files whose name is short enough for a socket."""
    folder = tempfile.mkdtemp(prefix="rays")
    names = {**SETTINGS, "RAY_TMPDIR": folder}
    before = {name: os.environ.get(name) for name in (*names, "RAY_ADDRESS")}
    os.environ.pop("RAY_ADDRESS", None)
    os.environ.update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        end_orphans(folder)
        shutil.rmtree(folder, ignore_errors=True)


def end_orphans(folder):
    """End processes of this cluster that outlive killed raylets, such as Ray's agents."""
    for own in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            of_ray = (own / "cmdline").read_bytes().startswith(b"ray::")
            if of_ray and any(str(file.readlink()).startswith(folder) for file in (own / "fd").iterdir()):
                os.kill(int(own.name), signal.SIGKILL)


class Nodes:
    """A head that drivers connect to, and other nodes that start and end."""

    def __init__(self, cluster):
        self.cluster, self.address = cluster, cluster.address
        self.others = []

    def add(self, **resources):
        node = self.cluster.add_node(object_store_memory=STORE_BYTES, **{"num_cpus": 1, **resources})
        self.others.append(node)
        return node

    def kill(self, node):
        """SIGKILL its raylet; its workers lose their parent."""
        self.others.remove(node)
        self.cluster.remove_node(node, allow_graceful=False)


@contextlib.contextmanager
def two_nodes():
    """A head and one other node, with room for one worker each."""
    from prunecast.clusters.ray import ray_module

    with settings():
        ray_module()
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 1, "object_store_memory": STORE_BYTES, "include_dashboard": False}
        nodes = Nodes(Cluster(initialize_head=True, head_node_args=head))
        try:
            nodes.add()
            yield nodes
        finally:
            for node in list(nodes.others):
                nodes.kill(node)
            nodes.cluster.remove_node(nodes.cluster.head_node, allow_graceful=False)


def end(job, store):
    """End a chain as if it had diverged at once; return the worker's outcome."""
    records = [_record(0)]
    with chain_folder(store, job.chain.spec).locked():
        chain_folder(store, job.chain.spec).write_records(records)
        time.sleep(0.05)
    return Progress(number=job.number, chain=job.chain, record=records[-1], ended="diverged")


def _record(level):
    return Record(
        **{"level": level, "density": 1.0, "error": 0.5, "loss": None, "train_error": None, "steps": 0},
        **{"parameters": 1, "weights": 1, "nonzero": 1, "effective_density": None, "seconds": 0.0},
        **{"validation_error": None, "status": "ok", "chance_error": 0.9, "device": "cpu", "code": ""},
    )


def free(jobs, store):
    """The chains that a worker can take, one after the other."""
    for job in jobs:
        with contextlib.suppress(BusyError):
            if not chain_folder(store, job.chain.spec).records():
                yield end(job, store)


def note(jobs, store, *, device, packed, most_width, loaded):
    """Record how a worker was started."""
    path = store / f"noted-{os.getpid()}.json"
    assert not path.exists(), "what a process has on a GPU would stay there"
    given = {"device": device, "packed": packed, "most_width": most_width}
    path.write_text(json.dumps({**given, "gpus": os.environ.get("CUDA_VISIBLE_DEVICES")}))
    until(lambda: len(list(store.glob("noted-*.json"))) % 2 == 0)
    yield from free(jobs, store)


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def end_all(jobs, store, **_):
    yield from free(jobs, store)


def alone(jobs, store, **_):
    """Record that another worker is running at the same time."""
    with (store / "alone").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            (store / "not-alone").touch()
        for outcome in free(jobs, store):
            time.sleep(0.3)
            yield outcome


def sleep_once(jobs, store, **_):
    """Run without end, but only the first time."""
    for number in range(2):
        with contextlib.suppress(FileExistsError):
            (store / f"slept-{number}").touch(exist_ok=False)
            time.sleep(3600)
    yield from free(jobs, store)


def stubborn(jobs, store, **_):
    """Ignore every signal."""
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(3600)
    yield


def packed(jobs, store, **_):
    """Run a fleet whose time is over at its first level."""
    for outcome in work(jobs, store, packed=True):
        yield outcome
        signal.setitimer(signal.ITIMER_REAL, 0.01)
