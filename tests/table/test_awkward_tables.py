"""Tables as other people publish them: each is read as it is, or with the one option that the refusal gives."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from prunecast.cli import cli
from prunecast.table import TableError, read
from prunecast.table.values import as_numbers
from prunecast.wording import sentences

DENSITIES = tuple(0.7**level for level in range(9))


def curves(sizes: tuple[float, ...] = (1.0, 0.5, 0.25), name: str = "width") -> pd.DataFrame:
    """Errors of some networks at some densities, after Eq. 1 with the invariant size · density."""
    rows = []
    for size in sizes:
        unpruned = 0.1 * size**-0.2
        for density in DENSITIES:
            low, high = (size * density) ** 2, 0.05**2
            ratio = (low + high * (0.8 / unpruned) ** 2) / (low + high)
            rows.append({name: size, "density": density, "error": min(unpruned * ratio**0.5, 0.85)})
    return pd.DataFrame(rows)


def names(pattern: str) -> pd.DataFrame:
    frame = curves((20, 32, 56), "depth")
    frame["Model"] = [pattern.format(depth) for depth in frame.pop("depth")]
    return frame


def retrained() -> pd.DataFrame:
    return pd.concat([curves().assign(retrain_time=time, seconds=range(27)) for time in (10, 40)])


def fractions() -> pd.DataFrame:
    parts = [curves().assign(n_fraction=part) for part in (0.5, 1.0)]
    return pd.concat(parts).assign(error=lambda own: own["error"] * own["n_fraction"] ** -0.3)


def baseline() -> pd.DataFrame:
    plain = curves()
    pruned = plain[plain["density"] < 1]
    return pd.concat(
        [
            plain[plain["density"] == 1].assign(method="dense"),
            pruned.assign(method="global magnitude"),
            pruned.assign(method="random", error=pruned["error"] * 1.05),
        ]
    )


def percentages() -> pd.DataFrame:
    own = curves()
    return pd.DataFrame(
        {"width": own["width"], "sparsity": 100 - 100 * own["density"], "error (%)": 100 * own["error"]}
    ).rename(columns={"error (%)": "test error"})


def wide(pattern: str, cell: Callable[[float], str]) -> pd.DataFrame:
    """One row per network, one column per sparsity."""
    own = names("ResNet-{}").assign(column=lambda own: [pattern.format(1 - one) for one in own["density"]])
    own["cell"] = [cell(error) for error in own["error"]]
    return own.pivot(index="Model", columns="column", values="cell").reset_index()


def by_depth() -> pd.DataFrame:
    """One row per sparsity, one column per network."""
    own = curves((20, 32, 56), "depth").assign(Sparsity=lambda own: 1 - own["density"])
    own["name"] = [f"resnet{depth}" for depth in own["depth"]]
    own["accuracy"] = 100 - 100 * own["error"]
    return own.pivot(index="Sparsity", columns="name", values="accuracy").reset_index()


def language_models() -> pd.DataFrame:
    own = curves((0.125, 1.3, 6.7), "size").rename(columns={"error": "wikitext2 ppl"})
    own["model"] = [{0.125: "OPT-125m", 1.3: "OPT-1.3b", 6.7: "OPT-6.7b"}[size] for size in own.pop("size")]
    return own


def unusual_baseline() -> pd.DataFrame:
    own = baseline()
    return own.assign(method=own["method"].replace("dense", "Before pruning"))


ONE_OPTION: dict[str, tuple[Callable[[], pd.DataFrame], str]] = {
    "depths in names": (lambda: names("resnet{}"), "--depth-from Model"),
    "depths in names with a hyphen": (lambda: names("Conv-{} (C10)"), "--depth-from Model"),
    "another column differs": (retrained, "--where retrain_time=40"),
    "the steps of each training": (
        lambda: pd.concat(
            [curves().assign(_step=step, error=error) for step, error in ((0, 0.9), (500, 0.8))]
            + [curves().assign(_step=1000)]
        ),
        "--where _step=1000",
    ),
    "a path before the name": (
        lambda: (
            curves()
            .assign(**{"train/acc": 99.5, "lr": 0.1, "test/acc": lambda own: 100 - 100 * own["error"]})
            .drop(columns="error")
        ),
        "--column error=1-test/acc/100",
    ),
    "a unit after each name": (
        lambda: pd.DataFrame(
            {
                "width": curves()["width"],
                "sparsity_pct": 100 - 100 * curves()["density"],
                "Top-1 error (%)": 100 * curves()["error"],
            }
        ),
        "--column density=1-sparsity_pct/100 --column 'error=Top-1 error (%)/100'",
    ),
    "a score with a number": (
        lambda: curves().assign(mAP50_95=lambda own: 1 - own["error"]).drop(columns="error"),
        "--metric mAP50_95",
    ),
    "one column per sparsity in percent": (
        lambda: wide("{:.4%}", lambda error: f"{100 - 100 * error:.4f}"),
        "--melt sparsity,accuracy --depth-from Model",
    ),
    "one column per sparsity, with errors": (
        lambda: wide("sparsity_{:.6f}", lambda error: f"{error:.6f}"),
        "--melt sparsity,error --depth-from Model",
    ),
    "one column per network": (by_depth, "--melt depth,accuracy"),
    "a unit in brackets and percent signs": (
        lambda: (
            curves()
            .assign(**{"Sparsity [%]": lambda own: [f"{100 - 100 * one:.6f}%" for one in own["density"]]})
            .drop(columns="density")
        ),
        "--column 'density=1-Sparsity [%]'",
    ),
    "a unit in words": (
        lambda: curves().assign(**{"error in %": lambda own: 100 * own["error"]}).drop(columns="error"),
        "--column 'error=error in %/100'",
    ),
    "a mean of accuracies": (
        lambda: (
            curves().assign(acc_mean=lambda own: 100 - 100 * own["error"], acc_std=1).drop(columns="error")
        ),
        "--column error=1-acc_mean/100",
    ),
    "a score with a unit": (
        lambda: (
            curves()
            .assign(**{"F1-score (%)": lambda own: 100 - 100 * own["error"], "seconds": 3.0})
            .drop(columns="error")
        ),
        "--metric '1-F1-score (%)'",
    ),
    "a baseline with a name of its own": (unusual_baseline, "--where 'method=global magnitude'"),
    "a width of another name": (lambda: curves(name="alpha"), "--column width=alpha"),
    "channels": (lambda: curves((64, 32, 16), name="channels"), "--column width=channels"),
    "a share of the data": (fractions, "--column num_examples=n_fraction"),
    "a baseline of two methods": (baseline, "--where 'method=global magnitude'"),
    "percentages": (percentages, "--column density=1-sparsity/100 --column 'error=test error/100'"),
    "sparsity in percent": (
        lambda: curves().assign(sparsity=lambda own: 100 - 100 * own["density"]).drop(columns="density"),
        "--column density=1-sparsity/100",
    ),
    "a ratio below one": (
        lambda: curves().rename(columns={"density": "compression ratio"}),
        "--column 'density=compression ratio'",
    ),
    "perplexity": (
        lambda: curves().assign(error=lambda own: 20 * own["error"]).rename(columns={"error": "ppl"}),
        "--metric perplexity",
    ),
    "BLEU": (
        lambda: curves().assign(BLEU=lambda own: 100 - 100 * own["error"]).drop(columns="error"),
        "--metric bleu",
    ),
    "F1": (
        lambda: curves().assign(test_f1=lambda own: 1 - own["error"]).drop(columns="error"),
        "--metric f1",
    ),
    "a metric of one's own": (
        lambda: curves().rename(columns={"error": "word_mistakes"}),
        "--metric word_mistakes",
    ),
    "two errors": (
        lambda: curves().assign(top1_error=0.5).rename(columns={"error": "err"}),
        "--column error=err",
    ),
}


@pytest.mark.parametrize("name", ONE_OPTION)
def test_the_refusal_gives_the_option_that_reads_the_table(name: str, tmp_path: Path) -> None:
    build, option = ONE_OPTION[name]
    path = tmp_path / "runs.csv"
    build().to_csv(path, index=False)
    with pytest.raises(TableError) as refused:
        read(path)
    given = [found.strip() for found in re.findall(r"(--[a-z].*?) \(\w+=", str(refused.value))]
    assert option in given, str(refused.value)
    run = CliRunner().invoke(cli, ["fit", str(path), *shlex.split(option), "--json"])
    assert run.exit_code == 0, run.output
    assert len(json.loads(run.output)["parameters"]) > 2


def as_they_are() -> dict[str, tuple[pd.DataFrame, list[str]]]:
    plain = curves()
    pruned, dense = plain[plain["density"] < 1], plain[plain["density"] == 1]
    return {
        "an empty column": (
            plain.assign(replicate=None, depth="", level=np.nan, chance_error=np.nan, weights=" "),
            [
                "Column replicate is empty; it is assumed to be 1 in every row.",
                "Column depth is empty; it is assumed to be 1 in every row.",
                "Column level is empty; levels are computed from the densities.",
                "Column chance_error is empty; it is not used.",
                "Column weights is empty; it is not used.",
            ],
        ),
        "a compression ratio": (
            plain.assign(compression_ratio=1 / plain["density"]).drop(columns="density"),
            ["Column compression_ratio is read as density = 1 / compression_ratio."],
        ),
        "cells with a percent sign": (
            plain.assign(
                sparsity=[f"{value:.8%}" for value in 1 - plain["density"]],
                Accuracy=[f"{value:.8%}" for value in 1 - plain["error"]],
            ).drop(columns=["density", "error"]),
            [
                "Column sparsity is read as density = 1 - sparsity.",
                "Column Accuracy is read as error = 1 - Accuracy.",
            ],
        ),
        "accuracies in percent": (
            plain.assign(Accuracy=100 - 100 * plain["error"]).drop(columns="error"),
            ["Column Accuracy is read as error = 1 - Accuracy / 100."],
        ),
        "values with a spread": (
            plain.assign(
                sparsity=[rf"{100 * value:.8f}\%" for value in 1 - plain["density"]],
                Accuracy=[rf"${100 * value:.8f} \pm 0.2$" for value in 1 - plain["error"]],
            ).drop(columns=["density", "error"]),
            [
                "Column sparsity is read as density = 1 - sparsity.",
                "Column Accuracy is read as error = 1 - Accuracy / 100.",
                "Column Accuracy has spreads such as 93.4 ± 0.2 or 93.4 (0.2); only the first number is used.",
            ],
        ),
        "ratios with a sign, bold errors": (
            plain.assign(
                compression=[f"{1 / value:.12f}x" for value in plain["density"]],
                error=[rf"\textbf{{{value:.12f}}}" for value in plain["error"]],
            ).drop(columns="density"),
            ["Column compression is read as density = 1 / compression."],
        ),
        "a baseline of one method": (
            pd.concat([pruned.assign(method="magnitude"), dense.assign(method="dense")]),
            ["3 rows of unpruned networks with method dense are also used for magnitude."],
        ),
        "a baseline without a method": (
            pd.concat([pruned.assign(method="magnitude"), dense]),
            ["3 rows of unpruned networks with no method are also used for magnitude."],
        ),
    }


@pytest.mark.parametrize("name", as_they_are())
def test_it_is_read_as_it_is_and_says_so(name: str, tmp_path: Path) -> None:
    frame, said = as_they_are()[name]
    path = tmp_path / "runs.csv"
    frame.to_csv(path, index=False)
    table = read(path)
    assert [one for one in sentences(table.findings) if one in said] == said
    own = curves().sort_values(["width", "density"])
    there = table.frame.sort_values(["width", "density"])
    for column in ("density", "error"):
        np.testing.assert_allclose(there[column], own[column], rtol=1e-9)


def test_a_number_is_read_in_spite_of_its_spread_unit_and_markup() -> None:
    cells = {
        "93.4 ± 0.2": 93.4, "93.4±.2%": 0.934, "93.4% ± 0.2%": 0.934, "93.4 +/- 1": 93.4, "93.4 (0.2)": 93.4,
        "93.4 [92.1, 94.0]": 93.4, r"$\mathbf{12.3}_{\pm 0.1}$": 12.3, "**0.1**": 0.1, "10x": 10, "125M": 125e6,
        "1.3B": 1.3e9, "10k": 1e4, r"50\%": 0.5,
    }  # fmt: skip
    np.testing.assert_allclose(as_numbers(pd.Series(list(cells))), list(cells.values()))
    words = ["0.9 (diverged)", "(3)", "seed-3", "1_000", "1.2.3M", "±", "—", "93,4", "5 of 7"]
    assert np.isnan(as_numbers(pd.Series(words))).all()


def test_names_of_language_models_give_their_numbers_of_parameters() -> None:
    own = language_models()
    with pytest.raises(TableError, match=r"--metric 'wikitext2 ppl' \("):
        read(own)
    with pytest.raises(TableError, match=r"--column parameters=model \("):
        read(own, metric="wikitext2 ppl")
    table = read(own, metric="wikitext2 ppl", columns={"parameters": "model"})
    np.testing.assert_allclose(np.unique(table.frame["width"]) ** 2, [0.125 / 6.7, 1.3 / 6.7, 1])


def test_empty_cells_of_columns_that_become_rows_are_left_out() -> None:
    own = pd.DataFrame({"width": [1, 2], "0%": [0.1, 0.08], "50%": [0.2, np.nan], "0.5 GB": [1, 1]})
    table = read(own, melt="sparsity,error")
    assert table.frame[["width", "density"]].to_numpy().tolist() == [[1, 1], [2, 1], [1, 0.5]]
    for names, words in (("sparsity", "must be two names"), ("0%,50%", "no two columns")):
        with pytest.raises(TableError, match=words):
            read(own, melt=names)


def test_columns_that_nothing_names_get_the_options_to_name_them() -> None:
    with pytest.raises(TableError, match="--column density=COLUMN --column error=COLUMN"):
        read(pd.DataFrame({"Breite": [1], "Dichte": [1], "Fehler": [0.1]}))
    with pytest.raises(TableError, match="remove the lines above it"):
        read(
            pd.DataFrame(
                {"Results of May": ["width", 1], "unnamed_2": ["density", 1], "unnamed_3": ["error", 0.1]}
            )
        )


def test_a_selected_method_keeps_the_unpruned_networks_of_its_own() -> None:
    """A baseline serves those configurations only that the method has not measured unpruned."""
    own = curves((1.0,)).assign(method="imp")
    table = read(pd.concat([baseline(), own]), where={"method": "imp"})
    assert (table.method, len(table)) == ("imp", len(DENSITIES))
    table = read(baseline(), where={"method": "random"})
    assert (table.method, len(table)) == ("random", 3 * len(DENSITIES))
    assert table.frame["unpruned_error"].notna().all()


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (["resnet20", "resnet56"], {"resnet20": ("resnet", 20), "resnet56": ("resnet", 56)}),
        (["cifar10-vgg11", "cifar10-vgg16"], {"cifar10-vgg11": ("cifar10-vgg", 11)}),
        (["wrn-28-10"], {"wrn-28-10": ("wrn-10", 28)}),
        (["vgg_16_bn", "vgg_19_bn"], {"vgg_16_bn": ("vgg_bn", 16)}),
    ],
)
def test_the_number_that_differs_is_the_depth(values: list[str], found: dict[str, tuple[str, int]]) -> None:
    frame = pd.concat([curves((1.0,)).assign(family=value) for value in values])
    table = read(frame, depth_from="family")
    family, depth = next(iter(found.values()))
    assert table.family == family
    assert depth in table.frame["depth"].tolist()


def test_names_with_endless_numbers_have_no_depth() -> None:
    two = pd.concat([curves((1.0,)).assign(family=value) for value in ("resnet20", "resnet" + "9" * 5000)])
    with pytest.raises(TableError, match="column family has several values"):
        read(two)
    with pytest.raises(TableError, match="in column family has no number, or several that differ"):
        read(two, depth_from="family")


def test_names_of_sizes_are_not_taken_for_families() -> None:
    frame = curves((1e8, 4e8, 1.6e9), name="parameters")
    frame = frame.assign(model=[f"lm-{size / 1e6:.0f}M" for size in frame["parameters"]])
    with pytest.raises(
        TableError, match="of one family, remove column model: their sizes are in other columns"
    ):
        read(frame)
    assert read(frame.drop(columns="model")).frame["width"].tolist()[-1] == 1


PYTHIAS = {
    "pythia-70m": (6, 512),
    "pythia-410m": (24, 1024),
    "pythia-1b": (16, 2048),
    "pythia-1.4b": (24, 2048),
}


def test_names_of_networks_that_depth_and_width_tell_apart_only_together() -> None:
    frame = pd.concat(
        [curves((float(width),)).assign(model=name, depth=depth) for name, (depth, width) in PYTHIAS.items()]
    )
    with pytest.raises(TableError, match="of one family, remove column model: their sizes are in other"):
        read(frame)
    assert read(frame.drop(columns="model")).frame["depth"].nunique() == 3
    counts = {"pythia-70m": 70e6, "pythia-410m": 410e6, "pythia-1b": 1e9, "pythia-1.4b": 1.4e9}
    with pytest.raises(TableError, match="of one family, remove column model: their sizes are in other"):
        read(frame.drop(columns="width").assign(num_params=frame["model"].map(counts)))


def test_numbers_of_parameters_in_names_are_not_taken_for_depths() -> None:
    frame = pd.concat([curves((1.0,)).drop(columns="width").assign(model=name) for name in PYTHIAS])
    with pytest.raises(
        TableError, match="named by their numbers of parameters, use --column parameters=model"
    ) as refused:
        read(frame)
    assert "depth" not in str(refused.value)
    counts = {"pythia-70m": 70e6, "pythia-410m": 410e6, "pythia-1b": 1e9, "pythia-1.4b": 1.4e9}
    named = frame.assign(params=frame["model"].map(counts)).drop(columns="model")
    assert read(named).frame["width"].max() == 1


def test_names_without_a_depth_are_refused() -> None:
    two = pd.concat([curves((1.0,)).assign(family=value) for value in ("wrn-28-10", "wrn-16-8")])
    with pytest.raises(
        TableError, match=r"'wrn-28-10' in column family has no number, or several that differ"
    ):
        read(two, depth_from="family")
    with pytest.raises(TableError, match="column depth gives the depth already; leave --depth-from out"):
        read(two.assign(depth=20), depth_from="family")
    with pytest.raises(TableError, match=r"there is no column famly\. Did you mean family\?"):
        read(two, depth_from="famly")


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("kept", 0.5),
        ("1-kept", 0.5),
        ("kept/2", 0.25),
        ("kept*2", 1.0),
        ("1/KEPT", 0.5),
        (" 1 - kept * 1 ", 0.5),
    ],
)
def test_a_column_is_computed_by_its_formula(formula: str, expected: float) -> None:
    frame = pd.DataFrame({"kept": [2.0 if "/K" in formula else 0.5], "error": [0.2], "unpruned_error": [0.1]})
    assert read(frame, columns={"density": formula}).frame["density"].tolist() == [expected]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"densty": "kept"}, "prunecast has no column 'densty'. Did you mean density?"),
        ({"density": "kpt"}, "there is no column kpt. Did you mean kept?"),
        ({"density": "kept+1"}, r"there is no column kept\+1"),
        ({"density": "1/kept*2"}, r"'1/kept\*2' is not a valid formula"),
    ],
)
def test_a_wrong_formula_is_refused(columns: dict[str, str], words: str) -> None:
    with pytest.raises(TableError, match=words):
        read(pd.DataFrame({"kept": [0.5, 1], "error": [0.2, 0.1]}), columns=columns)


def test_a_formula_of_words_is_refused_where_they_are(tmp_path: Path) -> None:
    """The column was said to be empty."""
    path = tmp_path / "runs.csv"
    path.write_text("density,top1\n1,0.1\n0.5,n/a\n0.2,high\n")
    with pytest.raises(TableError, match=r"line 4: top1 is 'high', which is not a number"):
        read(path, columns={"error": "top1/100"})


@pytest.mark.parametrize("separator", [";", "\t"])
def test_decimals_may_have_commas_as_spreadsheets_write_them(tmp_path: Path, separator: str) -> None:
    path = tmp_path / "runs.csv"
    own = curves().assign(family="v1.5", weights=lambda own: (1e6 * own["width"]).round().astype(int))
    own.to_csv(path, index=False, sep=separator, decimal=",")
    there = read(path).frame
    for column in ("width", "density", "error", "weights"):
        np.testing.assert_array_equal(there[column], own[column])
    path.write_text(path.read_text().replace("0,25", "0.25"))
    with pytest.raises(TableError, match="Write decimals with a point"):
        read(path)


def test_a_score_is_one_minus_an_error_by_name() -> None:
    frame = curves().assign(F1=lambda own: 100 - 100 * own["error"]).drop(columns="error")
    table = read(frame, metric="f1")
    assert (table.metric, table.metric.word, table.chance) == ("1-f1", "F1 error", None)
    assert "Column F1 is read as f1_error = 1 - F1 / 100." in sentences(table.findings)
    np.testing.assert_allclose(table.frame["error"], curves()["error"], rtol=1e-9)
    assert table.digest != read(curves()).digest
    assert read(frame.rename(columns={"F1": "goodness"}), metric="1-goodness").metric.word == "goodness error"


def test_parameters_are_the_size_and_tokens_the_data() -> None:
    parts = [
        curves((1.0, 0.5, 0.25)).assign(
            tokens=tokens, error=lambda own, t=tokens: own["error"] * (t / 4e9) ** -0.1
        )
        for tokens in (1e9, 4e9)
    ]
    frame = pd.concat(parts, ignore_index=True)
    table = read(frame.assign(params=(frame.pop("width") ** 2 * 160_000_000).astype(int)))
    assert sorted(set(table.frame["width"])) == [0.25, 0.5, 1.0]
    assert sorted(set(table.frame["num_examples"])) == [1_000_000_000, 4_000_000_000]
    assert sorted(set(table.frame["weights"])) == [10_000_000, 40_000_000, 160_000_000]
    said = sentences(table.findings)
    assert "Column tokens is read as num_examples." in said
    assert (
        "Column params is the only size, so width is the square root of params / 160,000,000: 1 for the largest "
        "network." in said
    )


def test_steps_are_the_data_where_networks_were_trained_for_several_numbers_of_them() -> None:
    frame = pd.concat([curves().assign(training_steps=steps) for steps in (1_000, 4_000)], ignore_index=True)
    table = read(frame.assign(error=frame["error"] * (frame["training_steps"] / 4_000) ** -0.1))
    assert sorted(set(table.frame["num_examples"])) == [1_000, 4_000]
    assert "Column training_steps is read as num_examples." in sentences(table.findings)


def test_parameters_that_are_left_and_steps_along_a_chain_are_no_axes() -> None:
    frame = curves((1.0,))
    table = read(frame.assign(parameters=np.round(1e6 * frame["density"]), steps=range(1, len(frame) + 1)))
    assert set(table.frame["width"]) == set(table.frame["num_examples"]) == {1}


def test_an_empty_column_of_errors_is_named() -> None:
    with pytest.raises(TableError, match="column accuracy is empty, but a table needs error in every row"):
        read(pd.DataFrame({"density": [1.0, 0.5], "accuracy": [None, None]}))
    table = read(pd.DataFrame({"density": [1.0, 0.5], "accuracy": [None, None], "error": [0.1, 0.2]}))
    assert table.frame["error"].tolist() == [0.1, 0.2]


@pytest.mark.parametrize(
    "columns", [{"density": 1e-300}, {"error": 1e-300}, {"width": 1e-300}, {"depth": 1e300}]
)
def test_values_that_no_fit_can_use_are_refused(columns: dict[str, float]) -> None:
    frame = curves().assign(depth=20.0)
    frame.loc[5, list(columns)] = list(columns.values())
    with pytest.raises(TableError, match=r"row 6.*must not be (smaller than 1e-12|larger than 1e\+15)"):
        read(frame)
