"""The text people read, held word for word in golden/*.txt; `make renew` writes them anew."""

from pathlib import Path

import numpy as np
import pytest
from golden_files import golden
from planted import planted

from prunecast.cli import show
from prunecast.laws import compare, fit, fit_each
from prunecast.table import read

GOLDEN = Path(__file__).parent / "golden"
SHIPPED = "cifar10-resnet20-24ep"


def at_50000():
    return read(SHIPPED, where={"num_examples": 50_000})


def fitted(table, **options):
    return show.fit(fit(table, **options), table.notes)


def cut():
    whole = at_50000()
    return fitted(read(whole.frame[whole.frame["error"] < 0.6]))


def predicted():
    law = fit(at_50000())
    density, width = np.meshgrid([1.0, 0.1, 0.01, 0.0001], [0.25, 1.0, 3.0], indexing="ij")
    return show.predictions(law.predict(density, width=width).frame())


def predicted_on_the_page():
    density, width = np.meshgrid([0.1, 0.01], [0.25, 1.0], indexing="ij")
    return show.predictions(fit(at_50000()).predict(density, width=width).frame())


TEXTS = {
    "fit": lambda: fitted(at_50000()),
    "fit-all-sizes": lambda: fitted(read(SHIPPED)),
    "fit-cut": cut,
    "fit-held": lambda: fitted(at_50000(), high_error="chance"),
    "fit-dip": lambda: fitted(read(SHIPPED), law="dip"),
    "fit-replicates": lambda: fitted(read(planted(configurations=20, replicates=3))),
    "fit-one": lambda: fitted(at_50000().select(width=0.5)),
    "singles": lambda: show.singles(fit_each(at_50000())),
    "scores": lambda: show.scores(compare(at_50000())),
    "predictions": predicted,
    "predict": predicted_on_the_page,
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_is_the_golden_one(name):
    text = TEXTS[name]() + "\n"
    assert text == golden(GOLDEN / f"{name}.txt", text)
    assert max(len(line) for line in text.splitlines()) <= show.WIDTH


def test_no_golden_file_is_left_over():
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(TEXTS)
