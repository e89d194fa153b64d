"""Every sentence that a person reads about results, written once, with the metric's word as an argument."""

from prunecast.wording import laws as laws
from prunecast.wording import table as table
from prunecast.wording.core import finding_as_json, sentence, sentences

__all__ = ["finding_as_json", "laws", "sentence", "sentences", "table"]
