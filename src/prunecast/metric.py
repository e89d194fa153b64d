"""What a table measures and a law predicts: an error, a loss or any other quantity where lower is better."""

from typing import ClassVar

HARDLY_BETTER = 0.9
"""An unpruned network with more than this share of the chance error has hardly learned anything."""
SCORE = "1-"
"""The prefix of a metric that is one minus a score, such as 1-f1."""
_SPELLING = {
    "auc": "AUC",
    "bleu": "BLEU",
    "f1": "F1",
    "iou": "IoU",
    "map": "mAP",
    "miou": "mIoU",
    "rouge": "ROUGE",
}


class Metric(str):
    """The measured quantity by its name; equal to that name, so that `metric == "loss"` works.

    There is one object of each name, so that `metric is Metric.LOSS` works, too. Errors, and one minus a score, are
    shares; every other metric is any positive number.
    """

    ERROR: ClassVar["Metric"]
    VALIDATION_ERROR: ClassVar["Metric"]
    LOSS: ClassVar["Metric"]
    _objects: ClassVar[dict[str, "Metric"]] = {}

    def __new__(cls, name: str) -> "Metric":
        """The metric of this name."""
        if not isinstance(name, str) or not name.removeprefix(SCORE):
            raise ValueError(f"{name!r} is not the name of a metric")
        if name not in cls._objects:
            cls._objects[str(name)] = super().__new__(cls, name)
        return cls._objects[name]

    @property
    def score(self) -> str:
        """The score that this metric is one minus, or ""."""
        return self.removeprefix(SCORE) if self.startswith(SCORE) else ""

    @property
    def is_share(self) -> bool:
        """Whether values lie between 0 and 1; else any positive number is one."""
        return bool(self.score) or self in (Metric.ERROR, Metric.VALIDATION_ERROR)

    @property
    def column(self) -> str:
        """The quantity as the name of a column: error, loss, perplexity, f1_error."""
        return f"{self.score}_error" if self.score else str(self)

    @property
    def word(self) -> str:
        """The quantity in a sentence: error, validation error, loss, perplexity, F1 error."""
        if self.score:
            return f"{_SPELLING.get(self.score, self.score.replace('_', ' '))} error"
        return self.replace("_", " ")

    @property
    def article(self) -> str:
        """The article of the word: an error, a loss, an F1 error."""
        first = self.word.split()[0]
        vowel = "AEFHILMNORSX" if first[:2].isupper() or first == "F1" else "AEIOaeio"
        return "an" if first[0] in vowel else "a"

    @property
    def plural(self) -> str:
        """Several of them: errors, validation errors, losses, perplexities, mse values."""
        if self.word.endswith("error"):
            return f"{self.word}s"
        return {"loss": "losses", "perplexity": "perplexities"}.get(self, f"{self.word} values")

    @property
    def measured(self) -> str:
        """The quantity as it is measured: test error, validation error, test loss."""
        return self.word if self is Metric.VALIDATION_ERROR else f"test {self.word}"

    @property
    def highest(self) -> float:
        """The largest possible value: 1 for shares, infinite for others."""
        return 1.0 if self.is_share else float("inf")


Metric.ERROR = Metric("error")
Metric.VALIDATION_ERROR = Metric("validation_error")
Metric.LOSS = Metric("loss")
