"""Every sentence about results, written once, with the metric's word as an argument."""

from prunecast.wording import table as table
from prunecast.wording.choice import (
    advice,
    amount,
    choice_as_json,
    in_runtime,
    network_beyond,
    network_name,
    out_of_reach,
    promise,
    timed_by,
    unit,
)
from prunecast.wording.core import finding_as_json, sentence, sentences
from prunecast.wording.laws import fit_as_json, verdict_numbers, verdict_sentence
from prunecast.wording.studies import fitted_to, study_as_json

__all__ = [
    "advice",
    "amount",
    "choice_as_json",
    "finding_as_json",
    "fit_as_json",
    "fitted_to",
    "in_runtime",
    "network_beyond",
    "network_name",
    "out_of_reach",
    "promise",
    "sentence",
    "sentences",
    "study_as_json",
    "table",
    "timed_by",
    "unit",
    "verdict_numbers",
    "verdict_sentence",
]
