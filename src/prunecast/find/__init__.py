"""Train only what an answer needs: the decisions of `prunecast.studies.decide`, carried out by the engine."""

from prunecast.find.search import (
    AfterRound,
    Budget,
    Round,
    Search,
    Spent,
    Stop,
    at_once,
    search,
    table_of,
)
from prunecast.find.wording import history_section, round_text, stop_line, training_line

__all__ = [
    "AfterRound",
    "Budget",
    "Round",
    "Search",
    "Spent",
    "Stop",
    "at_once",
    "history_section",
    "round_text",
    "search",
    "stop_line",
    "table_of",
    "training_line",
]
