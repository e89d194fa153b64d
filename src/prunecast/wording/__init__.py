"""Every sentence that a person reads about results, written once, with the metric's word as an argument."""

from prunecast.wording import laws as laws
from prunecast.wording import table as table
from prunecast.wording.core import finding_as_json, sentence, sentences
from prunecast.wording.studies import conclusion, fitted_to, reading_suggestions, study_as_json

__all__ = [
    "conclusion",
    "finding_as_json",
    "fitted_to",
    "laws",
    "reading_suggestions",
    "sentence",
    "sentences",
    "study_as_json",
    "table",
]
