"""The latency of sizes that were not timed: planted tables give it back, with intervals that hold."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from prunecast import laws, table
from prunecast.choice import choose, size_grid
from prunecast.choice.counts import counter
from prunecast.choice.latency import POOR_LATENCY, latency_predictor, predictor_of
from prunecast.cli import cli
from prunecast.errors import PrunecastError

DEPTHS, WIDTHS = (10, 20, 40), (0.25, 0.5, 1.0, 2.0)


def work(depth, width, density):
    """Multiply-adds and bytes as layers give them, with channels that are removed."""
    return 2e6 * depth * width**2 * density**0.9, (4e4 * depth * width**2 + 4e3 * width) * density


def latency(depth, width, density):
    products, stored = work(depth, width, density)
    return 0.1 + 0.02 * depth + 4e-8 * products + 2e-7 * stored


def rows(*, noise=0.0, depths=DEPTHS, widths=WIDTHS, levels=12, seed=0):
    """Planted curves; `noise` is the standard deviation of each size's own log latency."""
    rng, found = np.random.default_rng(seed), []
    for depth in depths:
        for width in widths:
            unpruned = 0.08 * (depth / 20) ** -0.2 * width**-0.3
            slower = np.exp(noise * rng.standard_normal())
            for level in range(levels):
                density = 0.8**level
                reach = density * (depth / 20) ** 0.5 * width**1.2
                products, stored = work(depth, width, density)
                found.append(
                    {
                        **{"depth": depth, "width": width, "num_examples": 50000, "level": level},
                        **{"density": density, "weights": round(9000 * depth * width**2)},
                        "error": min(0.85, unpruned * ((reach + 0.02) / reach) ** 0.8)
                        * np.exp(0.003 * rng.standard_normal()),
                        **{"multiply_adds": products, "bytes": stored},
                        "latency_ms": latency(depth, width, density) * slower,
                    }
                )
    return pd.DataFrame(found)


def fitted(**options):
    return laws.fit(table.as_table(rows(**options)), law="eq2")


def planted(**options):
    """The predictor of a planted table, without a law."""
    return predictor_of(
        {
            size: {name: own[name].to_numpy()[::-1] for name in own}
            for size, own in rows(**options).groupby(["depth", "width"])
        }
    )


@pytest.fixture(scope="module")
def timed():
    return fitted()


@pytest.mark.parametrize(("depth", "width", "density"), [(15, 0.7, 1.0), (30, 1.5, 0.3), (20, 0.35, 0.15)])
def test_planted_coefficients_predict_other_sizes(timed, depth, width, density):
    model = latency_predictor(timed).model
    (found,) = model.predict(*(np.array([float(value)]) for value in (depth, width, density)))
    assert found == pytest.approx(latency(depth, width, density), rel=0.02)
    assert (model.coefficients >= 0).all()


def test_timed_sizes_left_out_show_how_far_off_it_is(timed):
    assert latency_predictor(timed).timed.deviation < 0.02
    assert planted().timed.deviation == pytest.approx(latency_predictor(timed).timed.deviation)
    found = [planted(noise=0.1, seed=seed).timed.deviation for seed in range(20)]
    assert 0.07 < np.mean(found) < 0.2


def test_intervals_hold_what_they_say():
    """Noise is planted for each size; the true latency of a new size lies in the interval about as often as said."""
    inside = []
    for seed in range(40):
        predictor = planted(noise=0.1, seed=seed)
        rng = np.random.default_rng(100 + seed)
        for width in (0.35, 0.7, 1.4):
            (found,) = predictor.model.predict(np.array([30.0]), np.array([width]), np.array([0.5]))
            low, high = predictor.interval(found, predictor.timed.deviation)
            inside.append(low <= latency(30, width, 0.5) * np.exp(0.1 * rng.standard_normal()) <= high)
    assert np.mean(inside) > 0.85


def test_few_sizes_or_no_work_predict_nothing():
    assert planted(depths=(20,), widths=(0.5, 1.0)) is None
    bare = rows().drop(columns=["bytes", "multiply_adds"])
    assert latency_predictor(laws.fit(table.as_table(bare), law="eq2")) is None


def test_sizes_that_were_not_timed_are_chosen():
    few = fitted(widths=(0.25, 2.0))
    question = {"target_error": 0.12, "minimise": "latency"}
    best, known = (choose(few, **question, sizes=sizes) for sizes in ("within", "measured"))
    assert best.met
    assert best.answer.latency_ms <= known.answer.latency_ms * (1 + 1e-9)
    own = best.answer
    assert own.width not in WIDTHS
    assert own.latency_ms == pytest.approx(latency(own.depth, own.width, own.density), rel=0.05)
    low, high = own.latency_interval
    assert low < own.latency_ms < high
    assert known.answer.latency_interval is None
    (finding,) = (one for one in best.findings if one.kind == "cost_from_table")
    assert (finding.timed_sizes, finding.others, finding.interval) == (6, True, own.latency_interval)


@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_a_budget_holds_for_what_is_predicted_with_the_confidence_asked_for(confidence):
    noisy = fitted(noise=0.05)
    answer = choose(noisy, max_latency=1.0, confidence=confidence, width=0.7).answer
    predictor = latency_predictor(noisy)
    factor = predictor.factor(confidence, predictor.timed.deviation)
    assert answer.latency_ms * factor <= 1.0 + 1e-9
    assert answer.latency_ms * factor > 0.8


def test_a_named_size_is_answered_even_if_predictions_are_poor():
    poor = fitted(noise=0.5, seed=1)
    assert latency_predictor(poor).timed.deviation > POOR_LATENCY
    assert choose(poor, max_latency=3.0).answer.latency_interval is None
    found = choose(poor, max_latency=3.0, width=0.7)
    assert found.answer.latency_interval is not None
    text = " ".join(found.summary().split())
    assert "which is more than 15%, so time the network before you rely on it" in text


def test_the_answer_says_that_it_is_predicted(tmp_path):
    rows(noise=0.03).to_csv(tmp_path / "timed.csv", index=False)
    line = ["choose", str(tmp_path / "timed.csv"), "--law", "eq2", "--width", "0.7", "--max-latency", "1ms"]
    text = " ".join(CliRunner().invoke(cli, line, catch_exceptions=False).output.split())
    assert "predicted, 95% in" in text
    assert "This size was not timed. Its latency is predicted" in text
    assert "Predictions for the 12 timed sizes, each left out in turn, are" in text
    body = json.loads(CliRunner().invoke(cli, [*line, "--json"], catch_exceptions=False).output)
    low, high = body["latency_interval"]
    assert low < body["latency_ms"] < high


def test_a_saved_law_predicts_the_same(timed, tmp_path):
    timed.save(tmp_path / "law.json")
    again = laws.load(tmp_path / "law.json")
    assert latency_predictor(again).timed.deviation == pytest.approx(latency_predictor(timed).timed.deviation)


@pytest.mark.parametrize("confidence", [1e-300, 1e-12, 1 - 1e-16])
def test_a_confidence_of_almost_0_or_1_gives_finite_latencies(timed, confidence):
    predictor = latency_predictor(timed)
    assert 0 < predictor.factor(confidence, predictor.timed.deviation) < np.inf


def test_sizes_far_below_the_measured_ones_have_a_weight(timed):
    counts = counter(timed)(np.array([10.0]), np.array([1e-12]))
    assert counts.weights >= 1
    assert counts.dense_size >= 1
    assert latency_predictor(timed).model.predict(*(np.array([own]) for own in (10.0, 1e-12, 1.0))) > 0


def also_timed(**options):
    """A planted table that was timed in two more ways: 64 images take 50 times as long, ONNX Runtime a third."""
    frame = rows(**options)
    return frame.assign(
        latency_ms_torch_64=50 * frame.latency_ms,
        latency_ms_onnx_1=frame.latency_ms / 3,
        timed_with="torch-1-2",
    )


@pytest.fixture(scope="module")
def several():
    return laws.fit(table.as_table(also_timed()), law="eq2")


@pytest.mark.parametrize("width", [0.5, 0.7])
def test_answers_have_the_latencies_of_all_ways(several, width, tmp_path):
    several.save(tmp_path / "law.json")
    for fit in (several, laws.load(tmp_path / "law.json")):
        best = choose(fit, max_parameters=1e9, depth=20, width=width, density=0.4).answer
        torch, onnx = best.other_latencies
        assert (torch.runtime, torch.batch, onnx.runtime, onnx.batch) == ("torch", 64, "onnx", 1)
        assert torch.milliseconds == pytest.approx(50 * best.latency_ms)
        assert onnx.milliseconds == pytest.approx(best.latency_ms / 3)
        if width == 0.5:
            assert torch.interval is onnx.interval is best.latency_interval is None
        else:
            assert torch.interval == pytest.approx([50 * end for end in best.latency_interval])


def test_another_way_of_timing_answers_as_if_it_were_the_first(several):
    usual = choose(several, max_latency=1.5)
    other = choose(several, max_latency=75, timed_with="torch-64")
    assert (other.answer.depth, other.answer.width) == (usual.answer.depth, usual.answer.width)
    assert other.answer.density == pytest.approx(usual.answer.density)
    assert (usual.timed_with, other.timed_with) == ("torch-1-2", "torch-64-2")
    assert other.answer.latency_ms == pytest.approx(50 * usual.answer.latency_ms)
    named = {(own.runtime, own.batch): own.milliseconds for own in other.answer.other_latencies}
    assert named == {
        ("torch", 1): pytest.approx(usual.answer.latency_ms),
        ("onnx", 1): pytest.approx(usual.answer.latency_ms / 3),
    }
    assert choose(several, max_latency=1.5, timed_with="torch-1").answer == usual.answer


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("onnx-64", "has no latencies timed with 'onnx-64'; it has torch-1, torch-64 and onnx-1"),
        ("onnx", "has no latencies timed with 'onnx'; it has torch-1, torch-64 and onnx-1"),
    ],
)
def test_a_way_that_the_table_does_not_have_is_refused(several, name, there):
    with pytest.raises(PrunecastError, match=there):
        choose(several, max_latency=1, timed_with=name)


def test_the_command_shows_every_latency_and_the_runners_up_by_latency(tmp_path):
    also_timed().to_csv(tmp_path / "timed.csv", index=False)
    line = ["choose", str(tmp_path / "timed.csv"), "--law", "eq2", "--max-latency", "80ms"]
    text = CliRunner().invoke(cli, [*line, "--timed-with", "torch-64"], catch_exceptions=False).output
    assert "64 images in PyTorch, as timed" in text
    assert "1 image in ONNX Runtime, as timed" in text
    assert "Latency, ms" in text
    text = CliRunner().invoke(cli, [*line[:4], "--max-parameters", "100000"], catch_exceptions=False).output
    assert "Latency, ms" not in text
    assert "`" not in text.partition("Runners-up")[0]
    text = CliRunner().invoke(cli, [*line[:4], "--target-error", "0.1", "--minimise", "bytes"]).output
    assert "   Bytes   " in text


def uneven(depth, width, density):
    """Latency with steps, as kernels that work on blocks of channels have: no smooth curve predicts it."""
    blocks = np.ceil(5 * width * density**0.5) / (5 * width * density**0.5)
    return latency(depth, width, density) * blocks**2


def timed_untrained(folder, *, noise=0.0):
    """A planted table beside which untrained networks of all sizes that `choose` considers were timed."""
    frame = rows().assign(timed_with="torch-1-1")
    frame["latency_ms"] = uneven(frame.depth, frame.width, frame.density)
    grid = size_grid(DEPTHS, WIDTHS, "", "within")
    found = pd.DataFrame(
        [(deep, wide, density) for deep, wide in grid for density in 0.8 ** np.arange(0, 12, 0.5)],
        columns=["depth", "width", "density"],
    )
    found["multiply_adds"], found["bytes"] = work(found.depth, found.width, found.density)
    found["timed_with"] = "torch-1-1"
    rng = np.random.default_rng(0)
    slower = np.exp(noise * rng.standard_normal(len(found)))
    found["latency_ms_torch_1"] = uneven(found.depth, found.width, found.density) * slower
    frame.to_csv(folder / "timed.csv", index=False)
    found.to_csv(folder / "timed.untrained.csv", index=False)
    return folder / "timed.csv"


def test_untrained_networks_predict_what_no_curve_does(tmp_path):
    fit = laws.fit(timed_untrained(tmp_path), law="eq2")
    predictor = latency_predictor(fit)
    (tmp_path / "timed.untrained.csv").unlink()
    without = latency_predictor(laws.fit(tmp_path / "timed.csv", law="eq2"))
    assert not without.timed_untrained
    assert without.timed.deviation > 2 * predictor.timed.deviation
    grid = np.array([size for size in size_grid(DEPTHS, WIDTHS, "", "within") if size[1] not in WIDTHS])
    density = np.full(len(grid), 0.8**3)
    off = np.log(predictor.model.predict(*grid.T, density) / uneven(*grid.T, density))
    assert np.abs(off).max() < 1e-9
    assert predictor.elsewhere.deviation > predictor.timed.deviation
    named = predictor.deviations(np.array([grid[0, 0]] * 2), np.array([grid[0, 1], 0.333]), np.ones(2))
    assert named[0] < named[1]


def test_zeros_take_the_time_of_the_unpruned_network(tmp_path):
    source = timed_untrained(tmp_path)
    frame = pd.read_csv(source)
    unpruned = frame[frame.density == 1].set_index(["depth", "width"])
    for column in ("latency_ms", "multiply_adds", "bytes"):
        frame[column] = [unpruned.loc[(own.depth, own.width), column] for own in frame.itertuples()]
    frame.to_csv(source, index=False)
    model = latency_predictor(laws.fit(source, law="eq2")).model
    deep, wide = size_grid(DEPTHS, WIDTHS, "", "within")[2]
    found = model.predict(np.full(3, float(deep)), np.full(3, wide), np.array([1.0, 0.5, 0.1]))
    assert found == pytest.approx(uneven(deep, wide, 1.0))


def test_an_answer_says_that_its_size_was_timed_untrained(tmp_path):
    fit = laws.fit(timed_untrained(tmp_path, noise=0.02), law="eq2")
    wide = size_grid(DEPTHS, WIDTHS, "", "within")[2][1]
    assert wide not in WIDTHS
    found = choose(fit, max_latency=10, depth=20, width=wide)
    assert found.answer.latency_interval is not None
    text = " ".join(found.summary().split())
    assert "This size was timed untrained. Its latency is predicted: 95% of such networks take" in text
    assert "Predictions for the 12 trained sizes, timed as if untrained, are" in text
    fit.save(tmp_path / "law.json")
    again = laws.load(tmp_path / "law.json")
    assert again.untrained == fit.untrained
    answer = choose(again, max_latency=10, depth=20, width=wide).answer
    assert answer.latency_interval == pytest.approx(found.answer.latency_interval)


@pytest.mark.parametrize("share", [0.3, 0.45, 0.6, 0.75, 0.9])
def test_every_budget_above_the_fastest_network_is_kept(tmp_path, share):
    fit = laws.fit(timed_untrained(tmp_path, noise=0.05), law="eq2")
    wide = size_grid(DEPTHS, WIDTHS, "", "within")[-2][1]
    most = share * uneven(20, wide, 1.0)
    answer = choose(fit, max_latency=most, depth=20, width=wide).answer
    assert answer.latency_ms <= most


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda own: own.drop(columns="bytes"), "has no column bytes"),
        (lambda own: own.drop(columns="latency_ms_torch_1"), "has no column latency_ms_RUNTIME_BATCH"),
        (
            lambda own: own.assign(timed_with="onnx-1-1"),
            "timed with 'onnx-1-1', but timed.csv with 'torch-1-1'",
        ),
        (lambda own: own.assign(density=2.0), "row 2: density is 2, which is no possible value"),
        (lambda own: own.assign(bytes="many"), "row 2: bytes is nan, which is no possible value"),
    ],
)
def test_a_damaged_file_of_untrained_networks_is_refused(tmp_path, change, problem):
    source = timed_untrained(tmp_path)
    path = tmp_path / "timed.untrained.csv"
    change(pd.read_csv(path)).to_csv(path, index=False)
    with pytest.raises(PrunecastError, match=problem):
        table.read(source)


def test_another_file_beside_a_table_is_refused(tmp_path):
    source = timed_untrained(tmp_path)
    (tmp_path / "timed.untrained.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PrunecastError, match=r"timed.untrained.csv beside timed.csv cannot be read"):
        table.read(source)
