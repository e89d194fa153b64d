"""Iterative pruning: scores, masks, connectivity, the chain and its store."""

from prunecast.pruning.chain import run_chain
from prunecast.pruning.follow import follow_chain
from prunecast.pruning.level import Level, Trained, close_level, open_level
from prunecast.pruning.opened import Chain, open_chain
from prunecast.pruning.record import Record, StopRules, why_ended, within
from prunecast.pruning.store import ChainFolder, chain_folder, chain_folders

__all__ = [
    "Chain",
    "ChainFolder",
    "Level",
    "Record",
    "StopRules",
    "Trained",
    "chain_folder",
    "chain_folders",
    "close_level",
    "follow_chain",
    "open_chain",
    "open_level",
    "run_chain",
    "why_ended",
    "within",
]
