"""The base of all findings: what a table, a fit, an answer or a study knows about itself, as typed values.

A finding holds numbers and names, never a sentence. `prunecast.wording` says it in words.
"""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that a reader should know besides the numbers."""

    kind: ClassVar[str]
    """the kind of finding for programs; related findings share one"""
