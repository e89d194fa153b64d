"""Chains too big for one device: a group of processes on one machine, started, watched and ended together."""

from prunecast.distributed.launch import GroupTask, exit_words, run_group

__all__ = ["GroupTask", "exit_words", "run_group"]
