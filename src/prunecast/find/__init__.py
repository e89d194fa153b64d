"""Train only what an answer needs: the decisions of `prunecast.studies.decide`, carried out by the engine."""

from prunecast.find.search import Budget, Round, Search, Spent, Stop, at_once, ends_step, search, table_of
from prunecast.find.wording import history_section, round_text, stop_line, training_line, training_words

__all__ = [
    "Budget",
    "Round",
    "Search",
    "Spent",
    "Stop",
    "at_once",
    "ends_step",
    "history_section",
    "round_text",
    "search",
    "stop_line",
    "table_of",
    "training_line",
    "training_words",
]
