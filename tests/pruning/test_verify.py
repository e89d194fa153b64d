"""A store is verified without being changed, and what is wrong is named with what to do."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from tiny import CHAIN, chain, run

from prunecast.cli.engine import check
from prunecast.errors import PrunecastError
from prunecast.pruning import chain_folder, verify_store, write_tensors

OTHER = chain(replicate=1)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    store = tmp_path_factory.mktemp("store")
    run(store, cap=3, keep_weights=True)
    run(store, OTHER, cap=0)
    return store


@pytest.fixture
def store(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "store")
    return tmp_path / "store"


def content(store):
    return {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}


def texts(store):
    return [fault.text for fault in verify_store(store).faults]


def test_a_whole_store_has_no_faults_and_stays_as_it_is(store):
    before = content(store)
    found = verify_store(store)
    assert (found.chains, found.levels, found.faults) == (2, 5, ())
    assert content(store) == before
    assert verify_store(Path(__file__).parent / "store-format-1").faults == ()


@pytest.mark.parametrize(
    "name",
    ["spec.json", "records.json", "mask-002.safetensors", "rewind.safetensors", "weights-001.safetensors"],
)
def test_a_damaged_file_is_named_once(store, name):
    path = chain_folder(store, CHAIN).path / name
    path.write_bytes(path.read_bytes()[:-3])
    (text,) = (text for text in texts(store) if f"{name} is damaged" in text)
    assert "Restore it from a copy, or delete the folder" in text


def test_a_missing_spec_is_a_fault(store):
    (chain_folder(store, CHAIN).path / "spec.json").unlink()
    assert ["spec.json is damaged: it is missing" in text for text in texts(store)] == [True]


def test_files_that_disagree_are_named(store):
    folder = chain_folder(store, CHAIN)
    records = folder.records()
    folder.write_records(records[:1])
    assert any("the records are older" in text for text in texts(store))
    folder.write_records(records)
    shutil.copy(folder.mask(1), folder.mask(2))
    assert any("mask-002.safetensors is damaged: it belongs to level 1" in text for text in texts(store))
    folder.write_masks(2, folder.masks(1))
    assert any("records.json says" in text for text in texts(store))


def test_a_damaged_checkpoint_costs_one_level_only(store):
    write_tensors(chain_folder(store, CHAIN).checkpoint, {}, {})
    (text,) = texts(store)
    assert text.endswith(
        "is damaged. Delete it, or let the next run replace it; the level in progress starts again."
    )


def test_the_command_names_faults_and_exits_with_1(store):
    done = CliRunner().invoke(check, [str(store)])
    assert done.exit_code == 0
    assert "2 chains, 5 finished levels" in done.output
    assert done.output.endswith("nothing is wrong.\n")
    path = chain_folder(store, OTHER).path / "records.json"
    path.write_text("{")
    done = CliRunner().invoke(check, [str(store)])
    assert done.exit_code == 1
    assert f"{path} is damaged: it cannot be read." in done.output
    assert done.output.endswith("; 1 chain has faults.\n")
    done = CliRunner().invoke(check, [str(store), "--json"])
    assert done.exit_code == 1
    body = json.loads(done.output)
    assert body["chains"] == 2
    assert [(fault["chain"], fault["kind"]) for fault in body["faults"]] == [(OTHER.digest, "damaged")]


def test_what_is_no_store_is_refused(tmp_path):
    with pytest.raises(
        PrunecastError, match=r"holds no chains; give the folder that `prunecast run --store` wrote"
    ):
        verify_store(tmp_path)
