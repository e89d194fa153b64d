"""Chains too big for one device: a team of processes on one machine, started, watched and ended together."""

from prunecast.distributed.launch import run_team
from prunecast.distributed.task import Task

__all__ = ["Task", "run_team"]
