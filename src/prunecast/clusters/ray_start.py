"""To a Ray cluster and back: one that runs, or one that is started on this machine for as long as needed."""

import contextlib
import logging
import os
import socket
from collections.abc import Iterator
from typing import Any

from prunecast.errors import PrunecastError

OBJECT_STORE = 100 * 2**20
"""Bytes of shared memory of a cluster that is started here; only outcomes travel, the data is in the store."""
QUIET = {
    "RAY_DEDUP_LOGS_SKIP_REGEX": r"^(Raylet is terminated|A worker died or was killed|The node with node id)",
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
"""What Ray reads from its environment: deaths are told by the sweep, and nothing is reported to anybody."""
PATIENCE = 5.0
"""Seconds until an address that does not answer counts as unreachable."""


def ray_module() -> Any:
    """Ray, or a sentence that says how to get it."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as failure:
        raise PrunecastError(
            "--on ray needs Ray, which is not installed here; pip install 'prunecast[ray]'."
        ) from failure
    return ray


@contextlib.contextmanager
def joined(address: str = "") -> Iterator[Any]:
    """Ray connected to a cluster; one that this process is connected to already is left as it is.

    Without an address, that of the environment's RAY_ADDRESS; without one, a cluster is started here.
    """
    ray = ray_module()
    if ray.is_initialized():
        yield ray
        return
    where = address or os.environ.get("RAY_ADDRESS", "") or "local"
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
        ray.init(**options)
    except Exception as failure:
        ray.shutdown()  # half a connection may be left
        raise _refused(where, failure) from failure


def _reach(where: str) -> None:
    """Knock at the head's door first: Ray itself would wait for minutes."""
    host, colon, port = where.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), PATIENCE).close()
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
        remedy = "see whether `ray start --head` works on this machine"
    else:
        remedy = "give the --address of a running cluster as host:port, with the cluster's own token"
    return PrunecastError(f"Ray cannot join the cluster {where!r}: {words.rstrip('.')}; {remedy}.")
