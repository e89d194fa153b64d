"""A worker's side of Ray, without a cluster."""

import multiprocessing
import signal

import rays
from small import BRIEF, parsed

from prunecast.clusters.ray_worker import OUT_OF_TIME, Errand, run_share
from prunecast.clusters.seen import marked
from prunecast.pruning import chain_folder, code_version
from prunecast.sweep import chain_statuses
from prunecast.sweep.run import unfinished


def errand_for(store, mark, work):
    return Errand(store=store, mark=mark, code=code_version(), paths=(), work=work)


def test_a_fleet_whose_time_is_over_stores_where_its_chains_stand(tmp_path):
    text = BRIEF.replace("[100, 200]", "[50, 600]").replace("replicates = 2", "replicates = [0]")
    plan = parsed(text.replace("epochs = 2", "epochs = 100"))
    share = tuple(unfinished(enumerate(plan.chains, 1), tmp_path))
    with marked(tmp_path) as mark:
        told = run_share(share, errand_for(tmp_path, mark, rays.packed), "cpu", 600)
    assert {event.number for event in told} == {1}
    folder = chain_folder(tmp_path, plan.chains[1].spec)
    assert (folder.checkpoint.exists(), folder.records()) == (True, [])
    assert [own.state for own in chain_statuses(plan, tmp_path)] == ["begun", "waiting"]
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_a_worker_that_does_not_stop_is_ended(tmp_path):
    share = tuple(unfinished([(1, parsed(BRIEF).chains[0])], tmp_path))
    with marked(tmp_path) as mark:
        arguments = (share, errand_for(tmp_path, mark, rays.stubborn), "cpu", 0.001, 0.2)
        worker = multiprocessing.get_context("forkserver").Process(target=run_share, args=arguments)
        worker.start()
        worker.join()
    assert worker.exitcode == OUT_OF_TIME
