import errno
import json
import os
import shutil
import subprocess
import sys
import threading

import pytest
import torch
from digits_chains import numbers
from safetensors import safe_open
from tiny import CHAIN, chain, digits, run

from prunecast import data
from prunecast.errors import PrunecastError, UnreadableError
from prunecast.files import remove_temporary_files
from prunecast.pruning import StopRules, chain_folder, chain_folders, run_chain
from prunecast.pruning.files import (
    read_json,
    read_tensors,
    write_json,
    write_tensors,
    write_whole,
)

TENSORS = {
    "a": torch.randn(3, 4, generator=torch.Generator().manual_seed(0)),
    "b": torch.tensor(7),
    "c": torch.zeros(0, 3),
    "d": torch.tensor([True, False, True]),
    "e": torch.arange(5, dtype=torch.uint8),
    "f": torch.ones(2, dtype=torch.bfloat16),
    "g": torch.ones(2, 2, dtype=torch.float64).t(),
}


def test_tensors_survive_and_the_safetensors_library_reads_them(tmp_path):
    path = tmp_path / "x.safetensors"
    write_tensors(path, TENSORS, {"level": 3})
    found, notes = read_tensors(path)
    assert notes == {"level": 3}
    with safe_open(path, framework="pt") as other:
        assert set(other.keys()) == set(TENSORS)
        for name, tensor in TENSORS.items():
            assert torch.equal(found[name], tensor)
            assert found[name].dtype == tensor.dtype
            assert torch.equal(other.get_tensor(name), tensor)


@pytest.mark.parametrize("place", [0, 9, 60, -1])
def test_every_damaged_byte_is_noticed(tmp_path, place):
    path = tmp_path / "x.safetensors"
    write_tensors(path, TENSORS, {"level": 3})
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(PrunecastError, match=r"x\.safetensors is damaged"):
        read_tensors(path)


@pytest.mark.parametrize("keep", [0, 5, 100, -1])
def test_a_cut_file_is_noticed(tmp_path, keep):
    path = tmp_path / "x.safetensors"
    write_tensors(path, TENSORS, {"level": 3})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(PrunecastError, match=r"x\.safetensors is damaged"):
        read_tensors(path)


def test_json_notices_a_changed_digit(tmp_path):
    path = tmp_path / "records.json"
    write_json(path, {"error": 0.125})
    assert read_json(path) == {"error": 0.125}
    path.write_text(path.read_text().replace("0.125", "0.124"))
    with pytest.raises(PrunecastError, match=r"records\.json is damaged: its checksum is wrong"):
        read_json(path)


def fill_the_disk_for(path):
    """Let the kernel answer the next write of this file with 'no space left on device'."""
    path.with_name(f".{path.name}.{os.getpid()}.tmp").symlink_to("/dev/full")


def test_a_full_disk_leaves_the_old_file(tmp_path):
    path = tmp_path / "x"
    write_whole(path, b"old")
    fill_the_disk_for(path)
    with pytest.raises(
        PrunecastError, match=r"No space left on device\. Nothing finished is lost; free some space"
    ):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    assert os.strerror(errno.ENOSPC) == "No space left on device"


@pytest.mark.parametrize("name", ["records.json", "mask-002.safetensors", "checkpoint.safetensors"])
def test_a_chain_goes_on_after_a_full_disk(tmp_path, name):
    unbroken = run(tmp_path / "unbroken")
    running = run_chain(CHAIN, tmp_path, digits, rules=StopRules(level_cap=3))
    next(running)
    fill_the_disk_for(chain_folder(tmp_path, CHAIN).path / name)
    with pytest.raises(PrunecastError, match=f"{name}: No space left"):
        list(running)
    assert len(chain_folder(tmp_path, CHAIN).records()) == 1
    assert numbers(run(tmp_path)) == numbers(unbroken)


def test_half_written_files_are_ignored_and_removed(tmp_path):
    unbroken = run(tmp_path / "unbroken")
    run(tmp_path, cap=1)
    folder = chain_folder(tmp_path, CHAIN).path
    for name in (".records.json.99999.tmp", ".mask-002.safetensors.99999.tmp"):
        (folder / name).write_bytes(b"{")
    assert numbers(run(tmp_path)) == numbers(unbroken)
    assert not list(folder.glob(".*"))


def test_files_of_finished_levels_are_removed_even_after_a_kill(tmp_path):
    spec = chain(method="imp-fine-tuning")
    running = run_chain(spec, tmp_path, digits, rules=StopRules(level_cap=2))
    folder = chain_folder(tmp_path, spec)
    next(running)
    old = folder.start(1).read_bytes()
    list(running)
    folder.start(1).write_bytes(old)
    write_tensors(folder.checkpoint, {}, {"level": 1})
    assert len(run(tmp_path, spec, cap=2)) == 3
    assert not folder.start(1).exists()
    assert folder.start(3).exists()
    assert not folder.checkpoint.exists()


@pytest.mark.parametrize("name", ["records.json", "spec.json", "mask-002.safetensors", "rewind.safetensors"])
def test_a_damaged_file_is_named(tmp_path, name):
    run(tmp_path, cap=1)
    path = chain_folder(tmp_path, CHAIN).path / name
    path.write_bytes(path.read_bytes()[:-2] + b"!}")
    with pytest.raises(
        PrunecastError, match=f"{name} is damaged.*Restore it from a copy, or delete the folder"
    ):
        run(tmp_path, cap=2)


def test_a_damaged_checkpoint_costs_no_more_than_the_begun_level(tmp_path, caplog):
    unbroken = run(tmp_path / "unbroken", cap=1)
    begun, folder = tmp_path / "begun", chain_folder(tmp_path / "begun", CHAIN)
    running = run_chain(CHAIN, begun, digits, rules=StopRules(level_cap=1))
    next(running)
    fill_the_disk_for(folder.path / "mask-002.safetensors")
    with pytest.raises(PrunecastError, match="No space left"):
        next(running)
    folder.checkpoint.write_bytes(folder.checkpoint.read_bytes()[:-1])
    assert numbers(run(begun, cap=1)) == numbers(unbroken)
    assert "checkpoint.safetensors is damaged, so its level starts again" in caplog.text
    folder.checkpoint.write_bytes(b"")
    assert numbers(run(begun, cap=1)) == numbers(unbroken)
    assert not folder.checkpoint.exists()


def test_who_tidies_up_a_folder_takes_nothing_from_who_writes_there(tmp_path):
    path, removed, ended = tmp_path / "failure.json", [], threading.Event()

    def tidy():  # as several workers do that take the chain up in turn, and each of them twice
        while len(removed) < 5 and not ended.is_set():  # a miss is a failure, not a test that hangs
            if found := list(tmp_path.glob(".*.tmp")):
                remove_temporary_files(tmp_path)
                removed.extend(found)
                while list(tmp_path.glob(".*.tmp")) == [] and not path.exists() and not ended.is_set():
                    pass

    tidying = threading.Thread(target=tidy)
    tidying.start()
    write_whole(path, bytes(50_000_000))
    ended.set()
    tidying.join()
    assert len(removed) > 1
    assert path.stat().st_size == 50_000_000


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("nonzero", 10**400),
        ("weights", 0),
        ("error", float("nan")),
        ("level", True),
        ("density", 0.5),
        ("following", {"nonzero": "7"}),
        ("following", None),
        ("status", []),
    ],
)
def test_a_record_that_nobody_can_have_written_is_refused(tmp_path, field, value):
    run(tmp_path, cap=1)
    path = chain_folder(tmp_path, CHAIN).path / "records.json"
    body = read_json(path)
    body["levels"][0][field] = value
    write_json(path, body)
    with pytest.raises(PrunecastError, match=r"records\.json is damaged: .*level [01]"):
        run(tmp_path, cap=1)


@pytest.mark.parametrize("named", [True, 2**31, "conv1.weight", [["conv1.weight"]], [0], None])
def test_tensors_to_prune_that_nobody_can_have_written_are_refused(tmp_path, named):
    run(tmp_path, cap=1)
    path = chain_folder(tmp_path, CHAIN).path / "spec.json"
    write_json(path, read_json(path) | {"prunable": named})
    with pytest.raises(PrunecastError, match=r"spec\.json is damaged: it does not name the tensors to prune"):
        run(tmp_path, cap=2)


def test_a_share_too_large_for_a_float_is_refused_in_a_spec(tmp_path):
    run(tmp_path, cap=1)
    path = chain_folder(tmp_path, CHAIN).path / "spec.json"
    body = read_json(path)
    body["spec"]["test_share"] = 10**400
    write_json(path, body)
    with pytest.raises(PrunecastError, match=r"spec\.json: test_share is 10+; give a number"):
        run(tmp_path, cap=2)


def put_back(store, spec, done):
    """Replace the records by those of a copy made when `done` levels were finished."""
    folder = chain_folder(store, spec)
    folder.write_records(folder.records()[:done])
    return folder


@pytest.mark.parametrize("method", ["imp", "imp-fine-tuning", "imp-rate-rewinding"])
@pytest.mark.parametrize("done", [0, 1, 2])
def test_records_older_than_the_files_beside_them_are_refused(tmp_path, method, done):
    spec = chain(method=method)
    run(tmp_path, spec)
    folder = put_back(tmp_path, spec, done)
    before = {path.name: path.read_bytes() for path in folder.path.iterdir()}
    with pytest.raises(
        PrunecastError,
        match=rf"records\.json lists {done} finished levels?, but mask-\d+\.safetensors in the same folder "
        r"belongs to level \d: the records are older.*Restore all files of the folder from one copy, or delete it",
    ):
        run(tmp_path, spec)
    assert {path.name: path.read_bytes() for path in folder.path.iterdir()} == before


def test_a_rewind_point_packed_with_later_masks_is_refused(tmp_path):
    """Its weights are those of a later level, so the levels between would be trained with wrong numbers."""
    unbroken = run(tmp_path, cap=6)
    folder = put_back(tmp_path, CHAIN, 2)
    assert folder.tensors(folder.rewind)[1] > 2
    for level in range(4, 8):
        folder.mask(level).unlink()  # nothing else shows that the records are older
    with pytest.raises(
        PrunecastError, match=r"but rewind\.safetensors in the same folder belongs to level \d: the records"
    ):
        run(tmp_path, cap=6)
    shutil.rmtree(folder.path)
    assert numbers(run(tmp_path, cap=6)) == numbers(unbroken)


def test_a_checkpoint_of_a_later_level_is_refused(tmp_path):
    run(tmp_path, cap=1)
    write_tensors(chain_folder(tmp_path, CHAIN).checkpoint, {}, {"level": 4})
    with pytest.raises(
        PrunecastError, match=r"but checkpoint\.safetensors in the same folder belongs to level 4"
    ):
        run(tmp_path, cap=2)


@pytest.mark.parametrize("name", ["records.json", "mask-002.safetensors", "rewind.safetensors", "spec.json"])
def test_a_file_of_another_chain_is_refused(tmp_path, name):
    other = chain(replicate=1)
    run(tmp_path, cap=1)
    run(tmp_path, other, cap=1)
    shutil.copy(chain_folder(tmp_path, other).path / name, chain_folder(tmp_path, CHAIN).path / name)
    with pytest.raises(PrunecastError, match=rf"{name} is damaged: it belongs to the chain {other.digest}\."):
        run(tmp_path, cap=2)


def test_files_that_do_not_name_their_chain_stay_readable(tmp_path):
    """As earlier versions wrote them."""
    unbroken = run(tmp_path / "unbroken")
    run(tmp_path, cap=1)
    folder = chain_folder(tmp_path, CHAIN)
    for path in (folder.mask(1), folder.mask(2), folder.rewind):
        tensors, notes = read_tensors(path)
        assert notes.pop("spec") == CHAIN.digest
        write_tensors(path, tensors, notes)
    body = read_json(folder.path / "records.json")
    assert body.pop("spec") == CHAIN.digest
    write_json(folder.path / "records.json", body)
    assert numbers(run(tmp_path)) == numbers(unbroken)


def test_masks_that_the_records_do_not_know_are_refused(tmp_path):
    run(tmp_path, cap=1)
    folder = chain_folder(tmp_path, CHAIN)
    folder.write_masks(2, folder.masks(1))
    with pytest.raises(
        PrunecastError, match=r"mask-002.* is damaged: it keeps .* weights, but records\.json says"
    ):
        run(tmp_path, cap=2)
    shutil.copy(folder.mask(1), folder.mask(2))
    with pytest.raises(PrunecastError, match=r"mask-002.* is damaged: it belongs to level 1"):
        run(tmp_path, cap=2)


@pytest.mark.parametrize(
    "name",
    ["records.json", "spec.json", "mask-002.safetensors", "rewind.safetensors", "checkpoint.safetensors"],
)
def test_a_file_that_may_not_be_read_is_not_called_damaged(tmp_path, monkeypatch, name):
    run(tmp_path, cap=1)
    path = chain_folder(tmp_path, CHAIN).path / name
    if not path.exists():
        write_tensors(path, {}, {"level": 2})
    forbid(monkeypatch, path)
    with pytest.raises(
        UnreadableError, match=f"{name} cannot be read: Permission denied; ask its owner for"
    ) as seen:
        run(tmp_path, cap=2)
    assert "damaged" not in str(seen.value)
    assert str(seen.value).endswith("Delete nothing.")
    assert path.exists()


def forbid(monkeypatch, path):
    """Refuse this file as the kernel does; it refuses nothing to the user root."""
    opened = os.open

    def refusing(name, *arguments, **options):
        if os.fspath(name) == str(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(name))
        return opened(name, *arguments, **options)

    monkeypatch.setattr(os, "open", refusing)


@pytest.mark.parametrize("name", ["records.json", "mask-002.safetensors", "checkpoint.safetensors", "lock"])
def test_a_pipe_in_place_of_a_file_keeps_nobody_waiting(tmp_path, name):
    run(tmp_path, cap=1)
    path = chain_folder(tmp_path, CHAIN).path / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    if name == "checkpoint.safetensors":
        assert len(run(tmp_path, cap=2)) == 3
        return
    with pytest.raises(
        PrunecastError, match=f"{name} is damaged: it is not a regular file|Cannot write to .*chains"
    ):
        run(tmp_path, cap=2)


@pytest.mark.parametrize("name", ["records.json", "spec.json"])
def test_a_newer_format_is_refused_by_its_number(tmp_path, name):
    run(tmp_path, cap=0)
    path = chain_folder(tmp_path, CHAIN).path / name
    write_json(path, {**read_json(path), "format": 2})
    with pytest.raises(
        PrunecastError, match=f"{name} has format 2; this prunecast reads up to 1: upgrade prunecast"
    ):
        run(tmp_path, cap=1)


def test_a_second_process_is_turned_away_and_a_killed_one_leaves_no_lock(tmp_path):
    folder = chain_folder(tmp_path, CHAIN)
    code = (
        "import sys, time, pathlib; from prunecast.pruning import ChainFolder\n"
        "with ChainFolder(path=pathlib.Path(sys.argv[1])).locked():\n"
        "    print('held', flush=True); time.sleep(600)\n"
    )
    arguments = [sys.executable, "-c", code, str(folder.path)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(PrunecastError, match=f"Another process is working on the chain in {folder.path}"):
            run(tmp_path)
        other.kill()
    assert len(run(tmp_path, cap=0)) == 1


def test_other_data_under_the_same_name_are_refused(tmp_path):
    import dataclasses

    run(tmp_path, cap=0)
    other = dataclasses.replace(data.load("digits"), digest="other")
    with pytest.raises(PrunecastError, match="was trained on different data than 'digits' now holds"):
        list(run_chain(CHAIN, tmp_path, lambda: other, rules=StopRules(level_cap=1)))


def test_the_store_says_what_made_it(tmp_path):
    run(tmp_path, cap=1)
    run(tmp_path, chain(replicate=1), cap=0)
    folders = chain_folders(tmp_path)
    assert {folder.spec()[0] for folder in folders} == {CHAIN, chain(replicate=1)}
    body = json.loads((chain_folder(tmp_path, CHAIN).path / "spec.json").read_text())
    assert body["format"] == 1
    assert body["environment"]["torch"] == torch.__version__
    assert body["code"].startswith("0.")
    names = sorted(path.name for path in chain_folder(tmp_path, CHAIN).path.iterdir())
    masks = ["mask-001.safetensors", "mask-002.safetensors"]
    assert names == ["lock", *masks, "records.json", "rewind.safetensors", "spec.json"]


def test_a_store_that_cannot_be_made_is_refused_with_its_name(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(PrunecastError, match=r"Cannot create .*file: File exists; choose another folder"):
        run(tmp_path / "file" / "store")


def test_more_examples_than_there_are_is_a_mistake(tmp_path):
    with pytest.raises(
        PrunecastError, match="num_examples 601 and validation_examples 0 are more than the 600"
    ):
        run(tmp_path, chain(num_examples=601))
