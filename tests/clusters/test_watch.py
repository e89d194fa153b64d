"""What a driver sees of chains that work elsewhere."""

import os

from small import BRIEF, parsed

from prunecast.clusters.watch import Watch
from prunecast.pruning import chain_folder
from prunecast.sweep import run_plan
from prunecast.sweep.deaths import footprints
from prunecast.sweep.run import unfinished


def test_a_level_is_told_though_the_clock_of_the_file_system_stands_still(tmp_path):
    (chain, *_) = parsed(BRIEF).chains
    watch = Watch(tmp_path)
    (job,) = map(watch.begin, unfinished([(1, chain)], tmp_path))
    running, told, seen = run_plan(parsed(BRIEF), tmp_path), [], set()
    for _ in range(3):
        assert next(running).number == 1
        os.utime(chain_folder(tmp_path, chain.spec).path / "records.json", (1, 1))
        told += [(level.record.level, level.ended) for level in watch.news(job)]
        assert list(watch.news(job)) == []
        seen.add(footprints([job], tmp_path))
    running.close()
    assert told == [(0, ""), (1, ""), (2, "level cap")]
    assert len(seen) == 3
