"""Column names: the canonical ones, their synonyms, conversions, and what is refused as ambiguous."""

from pathlib import Path

import pandas as pd
import pytest

from prunecast.table import CANONICAL, TableError, other_latency, read
from prunecast.table.findings import (
    ChanceAssumed,
    ColumnAbsent,
    ColumnKeptAs,
    ColumnReadAs,
    LevelsComputed,
    ReplicatesNumbered,
)
from prunecast.wording import sentences

SAME = [
    ("density", ["d", "Kept", "fraction kept", "Fraction-Remaining", "weights.remaining"]),
    ("error", ["test_error", "Test Error", "ERR", "eps", "error-rate", "top1_error"]),
    ("depth", ["l", "layers", "Depth"]),
    ("width", ["w", "width multiplier", "WIDTH"]),
    ("num_examples", ["n", "dataset_size", "train-size", "examples", "Num Examples"]),
    ("replicate", ["seed", "rep", "Run", "trial"]),
    ("level", ["iteration", "round", "pruning_level"]),
    ("unpruned_error", ["eps_np", "dense error"]),
    ("family", ["model", "architecture"]),
    ("dataset", ["Data Set"]),
    ("method", ["pruning method"]),
]
SYNONYMS = [(name, word) for name, words in SAME for word in words]


def base() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "family": "f",
            "dataset": "x",
            "method": "imp",
            "recipe": "r",
            "depth": [20, 20, 32, 32],
            "width": [1.0, 1.0, 0.5, 0.5],
            "num_examples": 100,
            "replicate": 3,
            "level": [0, 1, 0, 1],
            "density": [1.0, 0.75, 1.0, 0.75],
            "error": [0.25, 0.5, 0.125, 0.25],
            "unpruned_error": [0.25, 0.25, 0.125, 0.125],
        }
    )


@pytest.mark.parametrize(("name", "word"), SYNONYMS)
def test_a_synonym_is_the_same_table(name: str, word: str) -> None:
    plain, renamed = read(base()), read(base().rename(columns={name: word}))
    pd.testing.assert_frame_equal(plain.frame, renamed.frame)
    assert plain.digest == renamed.digest
    assert plain.findings == ()
    assert renamed.findings == (ColumnReadAs(column=word, name=name, complement=False),)
    assert sentences(renamed.findings) == [f"Column {word} is read as {name}."]


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("density", "sparsity"),
        ("density", "Fraction Pruned"),
        ("error", "accuracy"),
        ("error", "Top-1"),
        ("error", "test_acc"),
        ("unpruned_error", "dense accuracy"),
    ],
)
def test_a_complement_is_converted_and_reported(name: str, word: str) -> None:
    turned = base().assign(**{name: 1 - base()[name]}).rename(columns={name: word})
    table = read(turned)
    pd.testing.assert_frame_equal(table.frame, read(base()).frame)
    assert table.findings == (ColumnReadAs(column=word, name=name, complement=True),)
    assert sentences(table.findings) == [f"Column {word} is read as {name} = 1 - {word}."]


def test_the_canonical_name_wins_and_the_other_is_kept() -> None:
    table = read(base().assign(accuracy=9.0, Density="x", seed=[5, 6, 7, 8]))
    pd.testing.assert_frame_equal(table.frame[list(CANONICAL)], read(base()).frame)
    assert table.frame["accuracy"].tolist() == [9.0] * 4
    assert table.frame["Density"].tolist() == ["x"] * 4
    assert table.frame["seed"].tolist() == [5, 6, 7, 8]


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (
            base().rename(columns={"density": "kept"}).assign(sparsity=0.5),
            "kept and sparsity both mean density",
        ),
        (base().rename(columns={"error": "eps"}).assign(top1=0.5), "eps and top1 both mean error"),
        (base().rename(columns={"error": "Error"}).assign(ERROR=0.5), "Error and ERROR both mean error"),
    ],
)
def test_two_synonyms_are_refused_by_name(frame: pd.DataFrame, words: str) -> None:
    with pytest.raises(TableError, match=words) as caught:
        read(frame)
    assert "Rename the right one" in str(caught.value)
    assert f"--column {words.rsplit(' ', 1)[1]}={words.split(' ', 1)[0]} (columns=" in str(caught.value)


def test_absent_columns_are_constant_and_reported() -> None:
    table = read(pd.DataFrame({"density": [0.5, 1.0], "error": [0.2, 0.1]}))
    assert table.frame.columns.tolist() == list(CANONICAL)
    row = table.frame.iloc[0]
    assert (table.family, table.dataset, table.method, table.recipe) == ("", "", "", "")
    assert (row["depth"], row["width"], row["num_examples"], row["replicate"], row["level"]) == (
        1,
        1.0,
        1,
        1,
        1,
    )
    assert table.findings == (
        *(ColumnAbsent(column=name) for name in ("depth", "width", "num_examples", "replicate")),
        LevelsComputed(),
    )
    assert sentences(table.findings)[-2:] == [
        "Columns depth, width, num_examples and replicate are absent; they are assumed to be 1 in every row.",
        "Column level is absent; levels are computed from the densities.",
    ]
    assert table.columns == {"density", "error"}
    assert table.chance is None


def test_canonical_types_and_order_of_columns_and_rows() -> None:
    shuffled = base()[::-1].astype({"depth": float, "level": str, "error": object, "family": "category"})
    shuffled.insert(0, "extra", list("abcd"))
    frame = read(shuffled).frame
    assert frame.columns.tolist() == [*CANONICAL, "extra"]
    assert frame["extra"].tolist() == list("abcd")
    assert frame["depth"].tolist() == [32, 32, 20, 20]
    for name in ("depth", "num_examples", "replicate", "level"):
        assert frame[name].dtype == "int64"
    for name in ("width", "density", "error", "unpruned_error"):
        assert frame[name].dtype == "float64"
    assert frame.index.tolist() == [0, 1, 2, 3]


def test_columns_in_an_index_count_as_columns() -> None:
    """What pandas makes of a table by `groupby(...).mean()`; sizes in the index were lost without a word."""
    plain = base().assign(width=base()["depth"] / 32, num_examples=base()["depth"] * 100)
    indexed = plain.groupby(["depth", "width", "density"])[["num_examples", "error"]].mean()
    assert read(indexed).digest == read(indexed.reset_index()).digest
    assert set(read(indexed).frame["width"]) == {20 / 32, 1.0}
    assert read(plain.set_index("width")).digest == read(plain).digest
    assert read(plain.set_index("width", drop=False)).digest == read(plain).digest
    with pytest.raises(TableError, match="two columns are called width; rename one"):
        read(plain.rename_axis("width"))


def test_fractional_depth_and_size_stay_fractions() -> None:
    frame = read(base().assign(depth=[0.5, 0.5, 1, 1], num_examples=0.25)).frame
    assert frame["depth"].tolist() == [0.5, 0.5, 1, 1]
    assert frame["num_examples"].tolist() == [0.25] * 4


def test_widths_may_be_written_as_fractions(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.write_text("density,error,width\n1,0.3,1/4\n1/2,0.4, 1/4\n1,0.2,1\n", encoding="utf-8")
    assert read(path).frame["width"].tolist() == [0.25, 0.25, 1.0]
    assert read(path, where={"width": 0.25}).frame["density"].tolist() == [1.0, 0.5]
    for bad in ("1/0", "a/b", "one"):
        with pytest.raises(TableError) as refused:
            read(base().assign(width=["1/4", bad, "1", "1"]))
        assert str(refused.value) == (
            f"DataFrame, row 2: width is '{bad}', which is not a number. Correct it, or remove the row."
        )


def test_replicate_labels_are_numbered() -> None:
    both = pd.concat([base().assign(replicate="b"), base().assign(replicate="a")])
    table = read(both)
    assert table.frame["replicate"].tolist() == [2] * 4 + [1] * 4
    assert table.findings == (ReplicatesNumbered(column="replicate", labels=2),)
    assert sentences(table.findings) == ["The 2 labels in column replicate are numbered from 1."]


@pytest.mark.parametrize(
    "column",
    [[True, False], [1 + 0j, 0.5 + 0j], pd.to_datetime(["2020", "2021"]), [[1], [2]], [None, "x"], [{}, 1]],
)
def test_a_frame_with_columns_of_another_kind_is_refused(column: object) -> None:
    with pytest.raises(TableError, match=r"DataFrame, row 1.*: density is "):
        read(pd.DataFrame({"density": column, "error": [0.1, 0.2]}))


def test_frames_without_rows_or_with_doubled_columns_are_refused() -> None:
    with pytest.raises(TableError, match="no rows"):
        read(base().iloc[:0])
    with pytest.raises(TableError, match="no rows"):
        read(pd.DataFrame())
    with pytest.raises(TableError, match="two columns are called error"):
        read(pd.concat([base(), base()[["error"]]], axis=1))


@pytest.mark.parametrize(
    ("dataset", "chance"),
    [
        ("cifar10", 0.9),
        ("CIFAR-100", 0.99),
        ("svhn", 0.804),
        ("Tiny ImageNet", 0.995),
        ("imagenet", 0.999),
        ("digits", 0.9),
        ("birds", None),
        ("", None),
    ],
)
def test_chance_of_known_datasets(dataset: str, chance: float | None) -> None:
    assert read(base().assign(dataset=dataset)).chance == chance


def test_chance_from_argument_column_and_dataset_in_this_order() -> None:
    frame = base().assign(dataset="cifar10")
    assert read(frame.assign(chance_error=0.7), chance=0.5).chance == 0.5
    assert read(frame.assign(chance_error=0.7)).chance == 0.7
    assert read(frame).findings == (ChanceAssumed(dataset="cifar10", chance_error=0.9),)
    assert sentences(read(frame).findings) == ["The chance error of cifar10 is assumed to be 0.9."]
    with pytest.raises(TableError, match=r"row 2: chance_error differs from 0\.7 in the first row"):
        read(frame.assign(chance_error=[0.7, 0.8, 0.7, 0.7]))
    with pytest.raises(TableError, match=r"row 1 .*: chance_error is 90, but it must be"):
        read(frame.assign(chance_error=90))
    for wrong in (0.0, 1.5, float("nan")):
        with pytest.raises(TableError, match="chance error must be between 0 and 1"):
            read(frame, chance=wrong)


def test_losses_have_no_upper_limit_and_no_chance() -> None:
    frame = base().rename(columns={"error": "perplexity"}).drop(columns="unpruned_error")
    frame["perplexity"] *= 100
    table = read(frame.assign(dataset="cifar10"), metric="loss")
    assert table.frame["error"].tolist() == [25, 50, 12.5, 25]
    assert table.frame["unpruned_error"].tolist() == [25, 25, 12.5, 12.5]
    assert (table.metric, table.chance) == ("loss", None)
    assert sentences(table.findings, table.metric) == ["Column perplexity is read as loss."]
    with pytest.raises(TableError, match="losses have no chance error"):
        read(frame, metric="loss", chance=0.9)
    with pytest.raises(
        TableError,
        match=r"row 1.*: perplexity \(loss\) is 0\. Rows with zero loss cannot be fitted; remove them\.",
    ):
        read(frame.assign(perplexity=0), metric="loss")
    with pytest.raises(TableError, match=r"no column loss\. A table needs density and loss"):
        read(frame.drop(columns="perplexity"), metric="loss")


def test_a_table_of_both_gives_the_metric_asked_for() -> None:
    both = base().assign(loss=[1.5, 2.5, 1.0, 2.0])
    assert read(both).frame["error"].tolist() == base()["error"].tolist()
    table = read(both, metric="loss")
    assert table.frame["error"].tolist() == [1.5, 2.5, 1.0, 2.0]
    assert table.frame["unpruned_error"].tolist() == [1.5, 1.5, 1.0, 1.0]
    assert table.frame["original_error"].tolist() == base()["error"].tolist()
    assert table.frame["original_unpruned_error"].tolist() == base()["unpruned_error"].tolist()
    kept = [ColumnKeptAs(column=name, name=f"original_{name}") for name in ("error", "unpruned_error")]
    assert list(table.findings) == kept
    assert sentences(table.findings)[0] == "Column error is kept as original_error."
    again = read(table.frame.rename(columns={"error": "loss"}), metric="loss")
    assert again.digest == table.digest


@pytest.mark.parametrize("column", ["error", "top1_err", "test_accuracy"])
def test_errors_are_not_taken_for_losses(column: str) -> None:
    """Whatever their values: percentages lie above 1 as losses do."""
    for scale in (1, 100):
        frame = pd.DataFrame({"density": [1.0, 0.5], column: [0.1 * scale, 0.2 * scale]})
        with pytest.raises(TableError) as refused:
            read(frame, metric="loss")
        assert str(refused.value) == (
            'DataFrame: there is no column loss, which --metric loss (metric="loss" in Python) needs. Leave that '
            f"option out to use the errors in column {column}, or rename the column to loss if it holds losses."
        )


def test_a_missing_loss_is_refused_by_its_name() -> None:
    with pytest.raises(TableError) as refused:
        read(base().assign(loss=[1.5, None, 1.0, 2.0]), metric="loss")
    assert str(refused.value) == ("DataFrame, row 2: loss is missing. Add the value, or remove the row.")


def test_the_columns_that_the_source_gave_are_known() -> None:
    """Whatever they are called there; what is filled in is not among them."""
    frame = base().drop(columns=["unpruned_error", "depth", "recipe"]).rename(columns={"density": "kept"})
    given = {"family", "dataset", "method", "width", "num_examples", "replicate", "level", "density", "error"}
    table = read(frame.assign(weights=9000, seconds=1.0))
    assert table.columns == given | {"weights"}
    assert table.select(width=0.5).columns == table.without_too_large().columns == table.columns


@pytest.mark.parametrize(
    ("column", "way"),
    [
        ("latency_ms_onnx_64", ("onnx", 64)),
        ("latency_ms_torch_1", ("torch", 1)),
        *((name, None) for name in ("latency_ms", "onnx_64", "latency_ms_onnx", "latency_ms_onnx_0")),
        *(
            (f"latency_ms_{name}", None)
            for name in ("gpu_1", "onnx_064", "torch_-1", "torch_100000", "torch_1_1")
        ),
    ],
)
def test_columns_of_other_latencies_name_runtime_and_batch(column, way):
    assert other_latency(column) == way
