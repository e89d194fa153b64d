"""An answer outside what was measured says so, axis by axis and for two axes together."""

from dataclasses import replace

import numpy as np
import pytest
from uneven_tables import uneven, uneven_table

from prunecast import choose, frontier
from prunecast.choice.counts import counter
from prunecast.choice.sizes import sizes
from prunecast.choice.within import inside
from prunecast.errors import PrunecastError
from prunecast.laws.reach import AXES, outside
from prunecast.report import page
from prunecast.report.answers import answers

SAID = (
    "This answer lies outside what was measured: depth 8 with 50,000 examples (depths up to 8 were measured with at "
    "most 12,500); measure there before you rely on it, or stay within with --sizes within "
    '(sizes="within" in Python).'
)


def test_outside_is_what_lies_further_out_than_anything_measured_on_two_axes() -> None:
    """Against the definition, on random places and random measurements."""
    random = np.random.default_rng(0)
    template = uneven().configurations[0]
    for _ in range(20):
        known = random.integers(1, 6, (6, 3)).astype(float)
        places = random.integers(1, 7, (40, 3)).astype(float)
        own = tuple(replace(template, **dict(zip(AXES, row, strict=True))) for row in known)
        found = outside(replace(uneven(), configurations=own), dict(zip(AXES, places.T, strict=True)))
        expected = [
            any(
                not any(np.all(signs * (row[pair] - place[pair]) >= 0) for row in known)
                for pair in ([0, 1], [0, 2], [1, 2])
                for signs in map(np.array, ([-1, -1], [-1, 1], [1, -1], [1, 1]))
            )
            for place in places
        ]
        assert found.tolist() == expected
        assert not outside(replace(uneven(), configurations=own), dict(zip(AXES, known.T, strict=True))).any()


def test_a_depth_that_was_never_trained_on_so_many_examples() -> None:
    chosen = choose(uneven(), target_error=0.2, depth=8)
    assert chosen.answer.extrapolated
    assert SAID.partition(", or")[0] + "." in chosen.notes  # who asks for a depth is not told to take another
    few = choose(uneven(), target_error=0.2, depth=8, num_examples=12_500)
    assert not few.answer.extrapolated
    assert not any("outside" in note for note in few.notes)
    asked = {"width": 1, "unpruned_error": 0.1}
    assert uneven().predict(0.5, depth=8, num_examples=50_000, **asked).extrapolated
    assert not uneven().predict(0.5, depth=20, num_examples=50_000, **asked).extrapolated
    assert (
        not uneven().predict(0.5, depth=8, **asked).extrapolated
    )  # the number of examples does not matter then


def test_the_answer_says_it_and_what_to_do_and_so_does_the_page() -> None:
    wide = choose(uneven(), target_error=0.3, sizes="around")
    assert (wide.answer.depth, wide.answer.extrapolated, wide.notes[0]) == (8, True, SAID)
    assert wide.as_json()["extrapolated"]
    assert (
        "depth 8 with 50,000 examples (depths up to 8 were measured"
        in page(uneven_table(), sizes="around", studies=False).html
    )
    line = frontier(uneven(), sizes="around")
    assert line.extrapolated[line.depth < 20].all()


@pytest.mark.parametrize("reach", ["measured", "within"])
@pytest.mark.parametrize(
    ("num_examples", "depths"),
    [(50_000, {20}), (30_000, {20}), (100_000, {20}), (12_500, {8, 14, 20}), (5_000, {8, 14, 20})],
)
def test_within_leaves_out_what_is_outside(reach: str, num_examples: float, depths: set[int]) -> None:
    """Beyond the measured numbers of examples, the nearest that was measured counts."""
    found = inside(uneven(), sizes(uneven(), counter(uneven()), num_examples, reach), reach)
    assert set(found.depth) == ({8, 20} & depths if reach == "measured" else depths)
    assert found.outside.all() == (num_examples not in (50_000, 30_000, 12_500))
    assert {
        c.network.depth for c in answers(uneven(), num_examples=num_examples, sizes=reach, most=9)
    } <= depths
    assert choose(uneven(), max_training=9, num_examples=num_examples, sizes=reach, depth=8).answer.depth == 8


def test_numbers_of_examples_are_written_out() -> None:
    chosen = choose(uneven(), target_error=0.2, num_examples=1_000_000)
    assert "number of examples 1,000,000 (measured: 12,500 to 50,000)" in chosen.notes[0]


def test_where_no_size_spans_the_number_of_examples() -> None:
    kept = [c for c in uneven().configurations if (c.depth == 8) == (c.num_examples == 12_500)]
    apart = replace(uneven(), configurations=tuple(kept))
    with pytest.raises(
        PrunecastError,
        match=r"no size was trained both on fewer and on more than 30,000 examples.*choose for a measured number "
        r"\(12,500, 50,000\), or allow other sizes with --sizes around \(sizes=\"around\" in Python\)",
    ):
        choose(apart, target_error=0.2, num_examples=30_000)
    assert choose(apart, target_error=0.2, num_examples=30_000, sizes="around").answer.extrapolated
