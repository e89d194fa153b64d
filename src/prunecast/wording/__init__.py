"""Every sentence that a person reads about results, written once, with the metric's word as an argument."""

from prunecast.wording import laws as laws
from prunecast.wording import table as table
from prunecast.wording.core import finding_as_json, sentence, sentences
from prunecast.wording.studies import fitted_to, next_conclusion, study_as_json, suggestions_legend

__all__ = [
    "finding_as_json",
    "fitted_to",
    "laws",
    "next_conclusion",
    "sentence",
    "sentences",
    "study_as_json",
    "suggestions_legend",
    "table",
]
