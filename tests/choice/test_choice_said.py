"""Results say themselves in a line at a prompt."""

from dataclasses import replace

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
