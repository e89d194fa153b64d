"""Iterative pruning: criteria, masks, connectivity, the chain of levels and its store."""

from prunecast.pruning.chain import Chain, choose_examples, code_version, open_chain
from prunecast.pruning.channels import Slicing
from prunecast.pruning.connectivity import trace_ahead
from prunecast.pruning.criteria import Criterion, PruningContext, register_criterion
from prunecast.pruning.files import (
    is_whole,
    make_folder,
    read_json,
    read_tensors,
    write_json,
    write_tensors,
    write_whole,
)
from prunecast.pruning.holder import NAME as HOLDER_FILE
from prunecast.pruning.holder import (
    NO_FILE,
    DeathsError,
    FileVersion,
    Holder,
    TimeLimitReached,
    file_version,
    footprint,
    holder_of,
)
from prunecast.pruning.level import (
    Checkpoint,
    Level,
    Trained,
    close_level,
    open_level,
    read_checkpoint,
    write_checkpoint,
)
from prunecast.pruning.masks import Masks, Scores, count_kept, dead_layers, full_masks
from prunecast.pruning.n_of_m import NOfM
from prunecast.pruning.prune import (
    Schedule,
    check_method,
    check_structure,
    kept_at,
    levels_to,
    needs_images,
    register_schedule,
)
from prunecast.pruning.record import (
    ERROR_REACHED,
    LEVEL_CAP,
    Pruned,
    Record,
    StopRules,
    why_ended,
    within,
)
from prunecast.pruning.run import (
    chain_trainer,
    device_name,
    follow_chain,
    run_chain,
    slicing_of,
    train_level,
)
from prunecast.pruning.starts import fitting, read_start, start_digest, store_start
from prunecast.pruning.store import FORMAT, ChainFolder, chain_folder, chain_folders, write_packed
from prunecast.pruning.structure import LevelStructure, Structure, register_structure, structure_of
from prunecast.pruning.verify import Fault, StoreCheck, verify_store

__all__ = [
    "ERROR_REACHED",
    "FORMAT",
    "HOLDER_FILE",
    "LEVEL_CAP",
    "NO_FILE",
    "Chain",
    "ChainFolder",
    "Checkpoint",
    "Criterion",
    "DeathsError",
    "Fault",
    "FileVersion",
    "Holder",
    "Level",
    "LevelStructure",
    "Masks",
    "NOfM",
    "Pruned",
    "PruningContext",
    "Record",
    "Schedule",
    "Scores",
    "Slicing",
    "StopRules",
    "StoreCheck",
    "Structure",
    "TimeLimitReached",
    "Trained",
    "chain_folder",
    "chain_folders",
    "chain_trainer",
    "check_method",
    "check_structure",
    "choose_examples",
    "close_level",
    "code_version",
    "count_kept",
    "dead_layers",
    "device_name",
    "file_version",
    "fitting",
    "follow_chain",
    "footprint",
    "full_masks",
    "holder_of",
    "is_whole",
    "kept_at",
    "levels_to",
    "make_folder",
    "needs_images",
    "open_chain",
    "open_level",
    "read_checkpoint",
    "read_json",
    "read_start",
    "read_tensors",
    "register_criterion",
    "register_schedule",
    "register_structure",
    "run_chain",
    "slicing_of",
    "start_digest",
    "store_start",
    "structure_of",
    "trace_ahead",
    "train_level",
    "verify_store",
    "why_ended",
    "within",
    "write_checkpoint",
    "write_json",
    "write_packed",
    "write_tensors",
    "write_whole",
]
