"""`prunecast.describe` says in Python what the commands print."""

import research_tables

import prunecast
from prunecast.wording import advice, sentences


def test_a_fit_and_an_answer_in_words():
    fit = prunecast.fit(
        prunecast.read(research_tables.path("cifar10-resnet20-24ep"), where={"num_examples": 50_000})
    )
    told = prunecast.describe(fit)
    assert fit.equation in told
    assert all(symbol in told for symbol in ("ε↑", "γ", "ψ"))
    chosen = prunecast.choose(fit, target_error=0.2)
    assert prunecast.describe(chosen).startswith(advice(chosen))
    unwrapped = " ".join(told.split())
    assert all(" ".join(sentence.split()) in unwrapped for sentence in sentences(fit.findings, fit.metric))
