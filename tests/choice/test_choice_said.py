"""Results say themselves in a line at a prompt."""

from dataclasses import replace

import pytest

import prunecast


def test_a_choice_says_its_answer_and_a_fit_its_numbers():
    fit = prunecast.fit(prunecast.read("cifar10-resnet20-24ep", where={"num_examples": 50000}))
    choice = prunecast.choose(fit, target_error=0.2)
    assert str(choice) == f"{choice.advice} {choice.promise}"
    assert str(choice).startswith(f"Train depth 20, width {choice.answer.width:.4g}, and prune to density")
    assert "gets about loss 0.2000" in str(replace(choice, metric="loss"))
    assert repr(choice) == f"<Choice by eq2 from cifar10-resnet20-24ep: {choice}>"
    assert repr(fit) == (
        "<Fit of eq2 to cifar10-resnet20-24ep: ε↑ 0.843, γ 0.545, p′ 0.00108, ψ 1.48; "
        "off by +2.1% ± 4.2% on 119 rows of 5 configurations, 5 notes>"
    )
    one = replace(fit, configurations=fit.configurations[:1], notes=fit.notes[:1])
    assert repr(one).endswith("119 rows of 1 configuration, 1 note>")


@pytest.mark.parametrize(("target", "met"), [(0.12, True), (0.119, False)])
def test_a_row_on_the_other_side_of_the_target_tells_what_is_expected(target: float, met: bool) -> None:
    """Luck is taken out both ways, so a measured error alone does not say whether the target is met."""
    choice = prunecast.choose("cifar10-resnet", target_error=target)
    best = choice.answer
    assert (choice.met, best.source) == (met, "measured")
    assert (best.error <= target) != met
    assert (best.expected_error <= target) == met
    told = f"measured at error {best.error:.4f}, and about {best.expected_error:.4f} is expected"
    assert told in choice.promise
    assert not any("it was measured" in note for note in choice.notes)


def test_the_least_error_of_a_law_that_dips_is_not_that_of_unpruned_networks() -> None:
    (note,) = (
        text for text in prunecast.choose("cifar10-resnet", target_error=0.12).notes if "impossible" in text
    )
    least = float(note.partition("least error is ")[2].partition(")")[0])
    assert 0.12 < least < 0.121
