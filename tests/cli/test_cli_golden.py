"""The text people read, kept word for word in golden/*.txt; `make renew` writes them again."""

from pathlib import Path

import numpy as np
import pytest
import research_tables
from golden_files import golden
from planted import planted

from prunecast import report
from prunecast.laws import SINGLE_LAW, compare, fit, fit_each
from prunecast.metric import Metric
from prunecast.report import terminal
from prunecast.table import read

GOLDEN = Path(__file__).parent / "golden"
MEASURED = str(research_tables.path("cifar10-resnet20-24ep"))


def at_50000():
    return read(MEASURED, where={"num_examples": 50_000})


def fitted(table, **options):
    return report.fit_summary(fit(table, **{"law": "eq2", **options}), table)


def cut():
    whole = at_50000()
    return fitted(read(whole.frame[whole.frame["error"] < 0.6]))


def predicted(density, width):
    law = fit(at_50000())
    density, width = np.meshgrid(density, width, indexing="ij")
    return report.predictions(law.predict(density, width=width), law.metric)


SECTIONS = {
    "fit": lambda: fitted(at_50000()),
    "fit-all-sizes": lambda: fitted(read(MEASURED)),
    "fit-cut": cut,
    "fit-fixed": lambda: fitted(at_50000(), high_error="chance"),
    "fit-auto": lambda: fitted(read(MEASURED), law="auto"),
    "fit-dip": lambda: fitted(read(MEASURED), law="dip"),
    "fit-replicates": lambda: fitted(read(planted(configurations=20, replicates=3))),
    "fit-one": lambda: fitted(at_50000().select(width=0.5)),
    "singles": lambda: report.single_fits(fit_each(at_50000()), SINGLE_LAW, Metric.ERROR),
    "scores": lambda: report.scores(compare(at_50000()), Metric.ERROR),
    "predictions": lambda: predicted([1.0, 0.1, 0.01, 0.0001], [0.25, 1.0, 3.0]),
    "predict": lambda: predicted([0.1, 0.01], [0.25, 1.0]),
}


@pytest.mark.parametrize("name", SECTIONS)
def test_text_is_the_golden_one(name):
    text = terminal.text(SECTIONS[name]()) + "\n"
    assert text == golden(GOLDEN / f"{name}.txt", text)
    assert max(len(line) for line in text.splitlines()) <= terminal.WIDTH


def test_no_golden_file_is_left_over():
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(SECTIONS)
