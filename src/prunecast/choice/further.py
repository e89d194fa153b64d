"""The network beyond what was measured that would do where none within does: named, and never the answer itself."""

from prunecast.choice.answer import Network, Question
from prunecast.choice.naming import Naming
from prunecast.choice.network import network
from prunecast.choice.options import measured_by
from prunecast.choice.search import Search
from prunecast.choice.sizes import ALLOW_AROUND, Sizes, sizes
from prunecast.choice.within import spanned


def further(search: Search) -> Network | None:
    """The best network by the law that lies outside and meets the target, or fits the budgets where no target is set.

    Who asked for measured sizes alone, or for those beyond already, is not told of others.
    """
    question = search.question
    if question.sizes != "within" or search.fit.dense is None:
        return None
    others = _others(search)
    if not len(others):
        return None
    if question.target_error is None:
        options = search.for_least_error(others)
        score = options.promised(search.fit, question.confidence)
    else:
        options = search.for_target(others)
        score = measured_by(question.minimise, options)
    return network(search, options, int(score.argmin())) if len(options) else None


def remedy(other: Network, question: Question, naming: Naming) -> str:
    """What the network beyond is, and how to ask for it."""
    does = "fits" if question.target_error is None else "is predicted to meet it"
    size = f"{naming.network(other.depth, other.width)}, density {other.density:.4g}"
    stored = f"{naming.amount(other.stored_parameters)} {naming.unit('stored')}"
    return f"{size} {does} ({stored}): {ALLOW_AROUND}"


def _others(search: Search) -> Sizes:
    """Sizes beyond what was measured of which the law says something."""
    fit, question = search.fit, search.question
    named = {"only_depth": question.depth, "only_width": question.width}
    wide = sizes(fit, search.counter, question.num_examples, "around", **named)
    return wide[~spanned(fit, wide) & (wide.unpruned < fit.parameters["high_error"])]
