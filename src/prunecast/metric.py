"""What a table measures and a law predicts: an error, a validation error or a loss, and what it is called."""

from enum import StrEnum


class Metric(StrEnum):
    """The measured quantity; equal to its name, so that `metric == "loss"` works."""

    ERROR = "error"
    VALIDATION_ERROR = "validation_error"
    LOSS = "loss"

    @property
    def word(self) -> str:
        """The quantity in a sentence: error, validation error, loss."""
        return self.value.replace("_", " ")

    @property
    def plural(self) -> str:
        """Several of them: errors, validation errors, losses."""
        return "losses" if self is Metric.LOSS else f"{self.word}s"

    @property
    def measured(self) -> str:
        """The quantity as it is measured: test error, validation error, test loss."""
        return self.word if self is Metric.VALIDATION_ERROR else f"test {self.word}"

    @property
    def highest(self) -> float:
        """The largest possible value: 1 for errors, infinite for losses."""
        return float("inf") if self is Metric.LOSS else 1.0
