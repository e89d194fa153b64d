import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from small import BRIEF, PRUNECAST, numbers, on_processes, parsed, table

from prunecast.cli.engine import export, run, status
from prunecast.errors import PrunecastError, StoreError
from prunecast.pruning import chain_folder
from prunecast.sweep import (
    Busy,
    Failed,
    Progress,
    chain_statuses,
    failure_of,
    rows,
    rows_of,
    run_plan,
)
from prunecast.sweep.events import Job, record_failure
from prunecast.sweep.status import SweepProgress
from prunecast.sweep.table import as_csv

MOUNT = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec"]
COMMAND = f"{sys.executable} -m prunecast.sweep"


def mounts_are_permitted():
    if shutil.which("unshare") is None:
        return False
    trial = subprocess.run(
        [*MOUNT, "mount -t tmpfs tmpfs /mnt"], capture_output=True, check=False, env={**os.environ}
    )
    return trial.returncode == 0


needs_mounts = pytest.mark.skipif(not mounts_are_permitted(), reason="mounting is not permitted here")


@pytest.fixture
def plan_file(tmp_path):
    path = tmp_path / "brief.toml"
    path.write_text(BRIEF)
    return path


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    store = tmp_path_factory.mktemp("unbroken")
    list(run_plan(parsed(BRIEF), store))
    return table(parsed(BRIEF), store)


def shell(script):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run([*MOUNT, script], capture_output=True, text=True, check=False, env=environment)


def invoke(command, *arguments):
    return CliRunner().invoke(command, [*map(str, arguments)])


@needs_mounts
@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_full_disk_ends_the_run_with_a_sentence_and_loses_nothing(tmp_path, jobs):
    small, store, text = (
        tmp_path / "small",
        tmp_path / "store",
        BRIEF.replace("replicates = 2", "replicates = 8"),
    )
    small.mkdir()
    plan, plan_file = parsed(text), tmp_path / "plan.toml"
    plan_file.write_text(text)
    done = shell(
        f"mount -t tmpfs -o size=200k tmpfs {small}; "
        f"set +e; {COMMAND} {plan_file} --store {small} --jobs {jobs}; code=$?; cp -r {small} {store}; exit $code"
    )
    assert done.returncode == 2, done.stderr
    assert "No space left on device. Nothing finished is lost; free some space and run" in done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith("Error:")]) == 1
    finished = done.stdout.count("· level ")
    assert 0 < finished < 16 * 3
    assert len(rows(plan, store)) >= finished
    list(run_plan(plan, store))
    list(run_plan(plan, tmp_path / "unbroken"))
    assert table(plan, store) == table(plan, tmp_path / "unbroken")


@needs_mounts
def test_a_read_only_store_can_be_read_and_says_so_when_written(tmp_path, plan_file, unbroken):
    store, out = tmp_path / "store", tmp_path / "t.csv"
    store.mkdir()
    begun = run_plan(parsed(BRIEF), store)
    for _ in range(4):
        next(begun)
    begun.close()
    prunecast = f'{sys.executable} -c "from prunecast.cli import main; main()"'
    done = shell(
        f"mount --bind {store} {store}; mount -o remount,bind,ro {store}; "
        f"{prunecast} status {plan_file} --store {store}; "
        f"{prunecast} export {plan_file} --store {store} -o {out}; "
        f"{prunecast} run {plan_file} --store {store} --jobs 2"
    )
    assert done.returncode == 2
    assert "4 training runs done" in done.stdout
    assert f"4 rows in {out}" in done.stdout
    assert done.stderr.startswith("prunecast: Cannot ")
    assert "Read-only file system" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    list(run_plan(parsed(BRIEF), store))
    done = shell(
        f"mount --bind {store} {store}; mount -o remount,bind,ro {store}; "
        f"{prunecast} run {plan_file} --store {store} -o {out}"
    )
    assert done.returncode == 0, "a finished plan needs no writing"
    assert table(parsed(BRIEF), store) == unbroken


@pytest.mark.parametrize("command", [[*PRUNECAST, "status"], COMMAND.split()], ids=["status", "sweep"])
def test_a_store_with_too_long_a_name_is_one_sentence(plan_file, command):
    done = subprocess.run(
        [*command, str(plan_file), "--store", "x" * 300], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "File name too long; choose another" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_table_goes_to_standard_output_without_a_message(tmp_path, plan_file):
    store = tmp_path / "store"
    next(iter(run_plan(parsed(BRIEF), store)))
    command = [*PRUNECAST, "export", str(plan_file), "--store", str(store), "-o", "/dev/stdout"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == as_csv(rows(parsed(BRIEF), store))
    assert done.stderr == "1 row in /dev/stdout\n"


def test_leftovers_of_a_killed_worker_are_removed_from_a_finished_chain(tmp_path):
    plan = parsed(BRIEF)
    list(run_plan(plan, tmp_path))
    folder = chain_folder(tmp_path, plan.chains[0].spec).path
    record_failure(tmp_path, Job(number=1, chain=plan.chains[0]), ValueError("before it was finished"))
    (folder / ".mask-002.safetensors.99999.tmp").touch()
    for _ in range(2):  # the first run takes the chain up again for its leftovers
        list(run_plan(plan, tmp_path))
    assert not (folder / "failure.json").exists()
    assert not list(folder.glob(".*"))


def test_two_workers_that_fail_with_one_chain_count_as_one_failed_run(tmp_path):
    job = Job(number=1, chain=parsed(BRIEF).chains[0], failures=2)
    for _ in range(2):
        record_failure(tmp_path, job, ValueError("between the lock and the look"))
    assert failure_of(tmp_path, job.chain.spec).times == 3


def test_two_runs_at_once_share_the_work_and_both_end_well(tmp_path, plan_file, unbroken):
    store = tmp_path / "store"
    command = [*COMMAND.split(), str(plan_file), "--store", str(store), "--jobs", "1"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    assert [run.communicate()[1] for run in both] == [b"", b""]
    assert [run.returncode for run in both] == [0, 0]
    assert table(parsed(BRIEF), store) == unbroken


def test_a_chain_that_another_run_trains_is_checked_again(tmp_path, unbroken):
    plan = parsed(BRIEF)
    first = chain_folder(tmp_path, plan.chains[0].spec)
    seen = []
    with first.locked():
        running = run_plan(plan, tmp_path)
        seen.append(next(running))
        assert isinstance(seen[0], Busy)
        assert seen[0].number == 1
        assert chain_statuses(plan, tmp_path)[0].state == "running"
        seen += [next(running) for _ in range(9)]
    seen += list(running)
    assert [event.number for event in seen[1:]] == [2] * 3 + [3] * 3 + [4] * 3 + [1] * 3
    assert table(plan, tmp_path) == unbroken


def test_a_damaged_record_is_named_and_the_others_go_on(tmp_path, plan_file, unbroken):
    plan, store, out = parsed(BRIEF), tmp_path / "store", tmp_path / "t.csv"
    list(run_plan(plan, store))
    folder = chain_folder(store, plan.chains[1].spec).path
    text = (folder / "records.json").read_text()
    (folder / "records.json").write_text(text.replace("0.", "1.", 1))
    raised = parsed(BRIEF.replace("level_cap = 2", "level_cap = 3"))
    events = list(run_plan(raised, store))
    assert [event.number for event in events if isinstance(event, Progress)] == [1, 3, 4]
    (failed,) = (event for event in events if isinstance(event, Failed))
    assert failed.number == 2
    assert f"{folder / 'records.json'} is damaged: its checksum is wrong" in failed.error
    with pytest.raises(PrunecastError, match=r"records\.json is damaged"):
        rows(plan, store)
    result = invoke(export, plan_file, "--store", store, "-o", out)
    assert result.exit_code == 1
    assert "9 rows" in result.output
    assert "Not in the table, chain 2:" in result.output
    assert "1 damaged" in invoke(status, plan_file, "--store", store).output
    shutil.rmtree(folder)
    list(run_plan(plan, store))
    assert table(plan, store) == unbroken


def test_an_edited_plan_says_what_changed_and_keeps_what_is_there(tmp_path, plan_file):
    store = tmp_path / "store"
    assert "The plan was edited" not in invoke(run, plan_file, "--store", store, "--jobs", 1).output
    plan_file.write_text(BRIEF.replace("[100, 200]", "[200, 50]").replace("level_cap = 2", "level_cap = 3"))
    again = invoke(run, plan_file, "--store", store, "--jobs", 1)
    assert (
        "The plan was edited since its last run: 2 chains are new, 2 chains have a different level cap, 2 chains were "
        "removed (results stay in the store, but not in the table)." in again.output
    )
    assert again.output.count("· level ") == 2 * 1 + 2 * 4
    plan_file.write_text(BRIEF)
    result = invoke(run, plan_file, "--store", store, "--jobs", 1)
    assert result.output.count("· level ") == 0, "all of this plan is there already"


FAMILY = """
import contextlib, os, signal, stat
from torch import nn

def die_in_the_middle_of_a_message():
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):  # the list itself is closed by now
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                os.write(descriptor, (1000).to_bytes(4, "big") + b"half")
    os.kill(os.getpid(), signal.SIGKILL)

class Bad(nn.Module):
    def forward(self, images):
        if len(images) > 2 and {when}:  # a trial before anything trains has two
            {what}
        return images

def small(depth, width, num_classes):
    first, hidden = Bad() if width == {bad} else nn.Identity(), int(4 * width)
    return nn.Sequential(first, nn.Flatten(), nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, num_classes))
"""
OWN = BRIEF.replace('"digits_cnn"', '"{name}:small"').replace("width = 0.5", "width = [1, 2]")


def own_family(folder, name, what, when="True"):
    (folder / f"{name}.py").write_text(FAMILY.format(bad=2, what=what, when=when))


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_family_that_raises_fails_alone_and_is_tried_again(tmp_path, monkeypatch, jobs):
    name = f"raising_family_{jobs}"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    plan_file, store = tmp_path / "own.toml", tmp_path / "store"
    plan_file.write_text(OWN.format(name=name))
    own_family(tmp_path, name, "raise ValueError('this width\\nis not built')")
    result = invoke(run, plan_file, "--store", store, "--jobs", jobs)
    assert result.exit_code == 1
    assert "4 chains finished, 4 failed" in result.output
    assert "chain 5 failed: ValueError: this width is not built" in result.output
    plan = parsed(OWN.format(name=name))
    failure = failure_of(store, plan.chains[4].spec)
    assert "in forward" in failure.traceback
    assert failure.times == 1
    assert "chain 5 failed: ValueError" in invoke(status, plan_file, "--store", store).output
    assert len(rows(plan, store)) == 4 * 3
    invoke(run, plan_file, "--store", store, "--jobs", jobs)
    assert failure_of(store, plan.chains[4].spec).times == 2
    own_family(tmp_path, name, "pass")
    sys.modules.pop(name, None)
    code = "from prunecast.cli import main; main()"
    command = [sys.executable, "-c", code, "run", "own.toml", "--store", "store", "--jobs", "1"]
    subprocess.run(command, check=True, capture_output=True)
    assert len(rows(plan, store)) == 8 * 3
    assert not list(store.glob("chains/*/failure.json"))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux to find the pipe")
def test_a_chain_that_kills_its_process_fails_after_the_third_time(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    flag = tmp_path / "kill"
    flag.touch()
    kill = "die_in_the_middle_of_a_message()"
    own_family(tmp_path, "killing_family", kill, f"os.path.exists({str(flag)!r})")
    plan, store = parsed(OWN.format(name="killing_family")), tmp_path / "store"
    events = list(run_plan(plan, store, executor=on_processes()))
    failed = [event for event in events if isinstance(event, Failed)]
    assert {event.number for event in failed} == {5, 6, 7, 8}
    assert all(
        event.error.startswith("3 workers in a row died on this chain without a new level or checkpoint; ")
        for event in failed
    )
    assert any("the last one was ended by SIGKILL. Is there enough memory" in event.error for event in failed)
    assert len(rows(plan, store)) == 4 * 3
    flag.unlink()
    assert all(isinstance(event, Progress) for event in run_plan(plan, store))
    assert len(rows(plan, store)) == 8 * 3


def test_ctrl_c_stops_cleanly_and_the_same_command_goes_on(tmp_path, plan_file, unbroken):
    store = tmp_path / "store"
    command = [*PRUNECAST, "run", str(plan_file), "--store", str(store), "--jobs", "2"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        assert any("· level " in line for line in running.stdout), "it ended before its first level"
        os.killpg(running.pid, signal.SIGINT)
        _, complaint = running.communicate()
    assert running.returncode == 130
    assert complaint.startswith("Stopped. ")
    assert len(complaint.splitlines()) == 1
    plan = parsed(BRIEF)
    assert not [own for own in chain_statuses(plan, store) if own.locked]
    list(run_plan(plan, store))
    assert table(plan, store) == unbroken


def test_ctrl_c_while_the_fork_server_imports_is_one_line(tmp_path, plan_file):
    command = [*PRUNECAST, "run", str(plan_file), "--store", str(tmp_path / "store"), "--jobs", "2"]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        while not has_fork_server(running.pid):
            assert running.poll() is None, "it ended before it had a fork server"
            time.sleep(0.01)
        time.sleep(0.3)
        os.killpg(running.pid, signal.SIGINT)
        _, complaint = running.communicate()
    assert running.returncode == 130
    assert complaint == "Stopped. 0 levels are in {}; run the same command to continue.\n".format(
        tmp_path / "store"
    )


def has_fork_server(process):
    found = (Path(f"/proc/{own}/cmdline") for own in children(process))
    return any(b"multiprocessing.forkserver" in path.read_bytes() for path in found)


def children(process):
    return Path(f"/proc/{process}/task/{process}/children").read_text().split()


def test_a_stop_between_two_events_ends_the_sweep_before_the_command(tmp_path, plan_file, monkeypatch):
    def interrupted(progress, event):
        raise KeyboardInterrupt

    monkeypatch.setattr(SweepProgress, "update", interrupted)
    done = invoke(run, plan_file, "--store", tmp_path / "store", "--jobs", 1)
    assert done.exit_code == 130
    assert not [own for own in chain_statuses(parsed(BRIEF), tmp_path / "store") if own.locked]


def test_a_store_error_of_a_worker_is_the_runs(tmp_path):
    (tmp_path / "chains").write_text("no folder")
    with pytest.raises(StoreError, match="choose another folder"):
        list(run_plan(parsed(BRIEF), tmp_path, jobs=2))


def test_the_failure_file_is_plain_json(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    own_family(tmp_path, "bad_family", "raise RuntimeError")
    plan = parsed(OWN.format(name="bad_family"))
    list(run_plan(plan, tmp_path / "store"))
    text = (chain_folder(tmp_path / "store", plan.chains[-1].spec).path / "failure.json").read_text()
    assert json.loads(text)["error"] == "RuntimeError"
    assert len(numbers(rows_of(chain_statuses(plan, tmp_path / "store")))) == 12
