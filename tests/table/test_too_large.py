"""The paper's selection of networks, on tables."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import research_tables
from click.testing import CliRunner

from prunecast import fit, read
from prunecast.cli import cli
from prunecast.laws.findings import TooLarge
from prunecast.wording import sentence


def curves(errors, replicates=(1.0,), examples=100):
    """Chains of three levels for (depth, width): error."""
    return pd.DataFrame(
        [
            {
                "depth": depth,
                "width": width,
                "num_examples": examples,
                "replicate": number,
                "density": density,
            }
            | {"error": error * factor * more}
            for (depth, width), error in errors.items()
            for number, factor in enumerate(replicates)
            for density, more in ((1.0, 1.0), (0.5, 1.0), (0.1, 1.5))
        ]
    )


def sizes(table):
    return sorted(
        set(zip(table.frame["depth"], table.frame["width"], table.frame["num_examples"], strict=True))
    )


def test_networks_beyond_the_turning_point_are_left_out_at_each_dataset_size():
    few = curves({(8, 1): 0.2, (14, 1): 0.25, (20, 1): 0.15, (8, 2): 0.18}, examples=100)
    many = curves({(8, 1): 0.1, (14, 1): 0.09, (20, 1): 0.08, (8, 2): 0.09}, examples=200)
    table = read(pd.concat([few, many], ignore_index=True))
    kept = table.without_too_large()
    assert set(sizes(table)) - set(sizes(kept)) == {(14, 1.0, 100), (20, 1.0, 100)}
    finding = kept.findings[-1]
    assert (finding.configurations, finding.total, finding.rows) == (2, 8, 6)
    assert finding.first == (14, 1.0, 100)
    rise = finding.reason
    assert (rise.axis, rise.best, rise.best_error, rise.size, rise.error) == ("depth", 8, 0.2, 14, 0.25)
    assert sentence(finding) == (
        "2 of 8 configurations (6 rows) are left out as too large for their data, for example depth 14, width 1, 100 "
        "examples. Networks deeper than depth 8 have a larger unpruned error: 0.2000 at depth 8, 0.2500 at depth 14 "
        "(noise explains up to 0.0192)."
    )
    assert kept.selected
    assert kept.digest != table.digest


def test_a_table_is_selected_once():
    """With the noise of the replicates that are left, more would go."""
    kept = read("cifar10-resnet-24ep").without_too_large()
    again = kept.without_too_large()
    assert (len(again), again.findings) == (len(kept), kept.findings)
    assert len(replace(kept, selected=False).without_too_large()) < len(kept)


@pytest.mark.parametrize(("spread", "out"), [(0.01, 1), (0.2, 0)])
def test_the_noise_is_that_of_the_tables_own_replicates(spread, out):
    table = read(curves({(8, 1): 0.2, (14, 1): 0.22}, replicates=(1 - spread, 1 + spread)))
    kept = table.without_too_large()
    assert len(sizes(table)) - len(sizes(kept)) == out
    assert sentence(kept.findings[-1]).startswith(
        "1 of 2 configurations (6 rows) is left out as too large for its data: depth 14"
        if out
        else "No configuration"
    )


def test_rows_no_better_than_chance_do_not_count():
    frame = curves({(8, 1): 0.2, (14, 1): 0.15}, replicates=(1.0, 1.0))
    frame.loc[(frame["depth"] == 14) & (frame["replicate"] == 1), "error"] = 0.9
    table = read(frame, chance=0.9)
    kept = table.without_too_large()
    assert (len(kept), kept.digest, kept.selected) == (len(table), table.digest, True)
    assert sentence(kept.findings[-1]) == "No configuration is too large for its data, so none is left out."


def test_a_fit_says_how_many_there_are_until_they_are_left_out():
    d = 0.8 ** np.arange(0, 24, 3)
    rows = [
        {"width": width, "num_examples": 100, "density": one, "error": low + (0.8 - low) * (1 - one) ** 9}
        for width, low in ((0.25, 0.3), (0.5, 0.2), (1, 0.26), (2, 0.28))
        for one in d
    ]
    table = read(pd.DataFrame(rows))
    (found,) = (finding for finding in fit(table).findings if isinstance(finding, TooLarge))
    assert (found.too_large, found.configurations) == (2, 4)
    selected = fit(table.without_too_large())
    assert not any(isinstance(finding, TooLarge) for finding in selected.findings)
    assert selected.selected


def test_every_command_that_reads_a_table_can_leave_them_out(tmp_path):
    for name in ("fit", "compare", "choose", "make", "study", "report", "figures"):
        told = CliRunner().invoke(cli, [name, "--help"])
        assert "--without-too-large" in told.output, name
    told = CliRunner().invoke(cli, ["fit", "cifar10-resnet-24ep", "--without-too-large"])
    assert "are left out as too large for their data" in " ".join(told.output.split())
    chosen = CliRunner().invoke(
        cli, ["choose", "cifar10-resnet", "--target-error", "0.2", "--without-too-large"]
    )
    assert "The law was fitted without networks that are too large for their data." in chosen.output
    law = tmp_path / "law.json"
    fit(read(research_tables.path("cifar10-resnet20-24ep"), where={"num_examples": 50000})).save(law)
    refused = CliRunner().invoke(cli, ["choose", str(law), "--target-error", "0.2", "--without-too-large"])
    assert "give the table itself to fit another law, to select rows" in str(refused.exception)
