"""What is said of targets that no network meets, and of those that need none."""

from collections.abc import Sequence
from typing import Any

from prunecast.choice import DEFAULT_SIZES, AboutTarget
from prunecast.choice.spoken import Speak
from prunecast.laws import Fit
from prunecast.report import words
from prunecast.report.answers import Answer, around, named, promised
from prunecast.wording import sentences

TYPED = "{}"
"""Stands for the target that was typed."""


def beneath(found: Sequence[Answer], speak: Speak) -> dict[str, Any]:
    """What the page says of every target below the least that is met.

    Findings about the lowest target that is looked up are left out: a network outside what was measured that meets it
    may miss the one typed.
    """
    lowest = found[0]
    best, asked = lowest.network, lowest.choice.question
    sure = "" if asked.confidence == 0.5 else f" with probability {asked.confidence:g}"
    least = "to expect" if asked.confidence == 0.5 else f"that {asked.confidence:.0%} of trainings keep to"
    pruned = f"pruned to density {words.density(best.density)}" if best.level else "not pruned"
    headline = (
        f"Nothing here gets to {TYPED}{sure}. The least error {least} is "
        f"{around(promised(lowest.fit, best, asked.confidence))[1]:.4g}: "
        f"{named(lowest, best.depth, best.width)}, {pruned}."
    )
    notes = sentences(
        (own for own in lowest.choice.findings if not isinstance(own, AboutTarget)), lowest.choice.metric
    )
    if asked.sizes == DEFAULT_SIZES and lowest.fit.dense is not None:
        notes.insert(
            0, "Whether a network beyond what was measured would: `prunecast choose … --sizes around`."
        )
    return {"headline": speak(headline), "notes": [speak(note) for note in notes]}


def beyond(fit: Fit, speak: Speak) -> list[dict[str, Any]]:
    """From which errors on no network is needed, and why; the first that a target reaches is said."""
    chance, high = fit.origin.chance, fit.parameters["high_error"]
    said = []
    if chance is not None:
        said.append((chance, f"{TYPED} needs no network: guessing errs by {chance:g}."))
    if "high_error" in fit.undetermined:
        why = (
            f"The data do not tell how far the error rises (the law guesses {words.error(high)}), so they do not say "
            f"what gets to {TYPED}."
        )
    else:
        why = (
            f"Any network gets to {TYPED}: by the law the error stays below {words.error(high)} however far one is "
            "pruned."
        )
    return [{"from": start, "headline": speak(text)} for start, text in [*said, (high, why)]]
