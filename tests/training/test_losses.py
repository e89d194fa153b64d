import pytest
import torch
from torch.nn import functional

from prunecast import spec
from prunecast.errors import PrunecastError
from prunecast.training import check_loss, loss_of

LOGITS = torch.randn(7, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
LABELS = torch.arange(7) % 5
DIGITS = spec.recipe("digits")


def unreduced(logits, labels):
    return functional.cross_entropy(logits, labels, reduction="none")


def number(logits, labels):
    return 1.0


def of_logits(logits):
    return logits.mean()


def endless(logits, labels):
    return logits.sum() / 0


def counted(logits, labels):
    return (logits.argmax(1) != labels).float().mean()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_smoothed_labels_are_those_of_torch(smoothing):
    loss = loss_of(DIGITS.changed({"label_smoothing": smoothing}))
    target = functional.one_hot(LABELS, 5) * (1 - smoothing) + smoothing / 5
    wanted = -(target * LOGITS.log_softmax(1)).sum(1)
    torch.testing.assert_close(loss.each(LOGITS, LABELS), wanted)
    torch.testing.assert_close(loss.mean(LOGITS, LABELS), wanted.mean())


def test_a_loss_by_its_name():
    loss = loss_of(DIGITS.changed({"loss": "torch.nn.functional:multi_margin_loss"}))
    assert loss.each is None
    assert loss.mean(LOGITS, LABELS) == functional.multi_margin_loss(LOGITS, LABELS)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("test_losses:unreduced", r"returned a tensor of shape \(7,\); return the mean over the examples"),
        ("test_losses:number", "returned float; return the mean"),
        ("test_losses:LABELS", "is Tensor; it must be a function of logits and labels, or a Loss"),
        ("test_losses:missing", "has no attribute 'missing'"),
    ],
)
def test_other_things_are_refused(name, words):
    with pytest.raises(PrunecastError, match=words):
        loss_of(DIGITS.changed({"loss": name})).mean(LOGITS, LABELS)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("unreduced", r"returned a tensor of shape \(8,\); return the mean over the examples"),
        (
            "of_logits",
            r"fails: TypeError: of_logits\(\) takes 1 .*with logits, of shape \(examples, 3\), and labels",
        ),
        ("endless", "is -?inf for random logits; return a finite number"),
        ("counted", "has no gradient; compute it from the logits"),
    ],
)
def test_a_loss_is_tried_before_anything_trains(name, words):
    with pytest.raises(PrunecastError, match=f"^loss 'test_losses:{name}' {words}"):
        check_loss(DIGITS.changed({"loss": f"test_losses:{name}"}), 3)


@pytest.mark.parametrize("name", ["cross-entropy", "torch.nn.functional:multi_margin_loss"])
def test_a_loss_that_can_be_minimised_is_accepted(name):
    check_loss(DIGITS.changed({"loss": name}), 3)
