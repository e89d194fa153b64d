"""The time limit of a worker, without a cluster."""

import multiprocessing
import signal

import rays
from small import BRIEF, parsed

from prunecast.pruning import chain_folder, code_version
from prunecast.sweep import Resources, WorkerSpec, chain_statuses, run_worker
from prunecast.sweep.run import unfinished
from prunecast.sweep.shared_store import identified
from prunecast.sweep.worker import OUT_OF_TIME, pull_chains


def spec_for(jobs, store, store_id, work, minutes):
    given = {"jobs": tuple(jobs), "store": store, "store_id": store_id, "code": code_version()}
    return WorkerSpec(**given, work=work, resources=Resources(minutes=minutes))


def test_a_fleet_whose_time_is_over_stores_where_its_chains_stand(tmp_path):
    text = BRIEF.replace("[100, 200]", "[50, 600]").replace("replicates = 2", "replicates = [0]")
    plan = parsed(text.replace("epochs = 2", "epochs = 100"))
    jobs = unfinished(enumerate(plan.chains, 1), tmp_path)
    with identified(tmp_path) as store_id:
        assert run_worker(spec_for(jobs, tmp_path, store_id, rays.packed, 600))
    folder = chain_folder(tmp_path, plan.chains[1].spec)
    assert (folder.checkpoint.exists(), folder.records()) == (True, [])
    assert [own.state for own in chain_statuses(plan, tmp_path)] == ["begun", "waiting"]
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_a_worker_that_does_not_stop_is_ended(tmp_path):
    jobs = unfinished([(1, parsed(BRIEF).chains[0])], tmp_path)
    spec = spec_for(jobs, tmp_path, "", rays.stubborn, 0.001)
    worker = multiprocessing.get_context("forkserver").Process(target=pull_chains, args=(spec, 0.2))
    worker.start()
    worker.join()
    assert worker.exitcode == OUT_OF_TIME
