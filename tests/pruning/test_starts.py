"""Chains that start from a file of trained weights."""

import dataclasses
import os
import pickle
import random

import pytest
import torch
from digits_chains import CHAIN, changed, numbers

from prunecast import data, families, spec
from prunecast.errors import PrunecastError
from prunecast.pruning import (
    StopRules,
    chain_folder,
    count_kept,
    fitting,
    open_chain,
    open_level,
    read_start,
    run_chain,
    start_digest,
    store_start,
    verify_store,
    write_tensors,
)
from prunecast.training import evaluate

STEPS = {"epochs": 4, "rewind": 1.5}


def network(seed=3, width=0.5):
    generator = torch.Generator().manual_seed(seed)
    model = families.build("digits_cnn", depth=3, width=width, num_classes=10, generator=generator)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if "running_var" in name:
                tensor.fill_(1.7)
    return model


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "weights.pt"
    torch.save(network().state_dict(), path)
    return path


def started(store, path, *, trained, **changes):
    digest = start_digest(path)
    store_start(store, path, digest)
    return changed(CHAIN, **changes, start=digest, start_trained=trained)


def run(store, own, cap=2, **options):
    rules = StopRules(level_cap=cap, at_chance=0)
    return list(run_chain(own, store, lambda: data.load("digits"), rules=rules, **options))


def opened(store, own):
    return open_chain(own, store, data.load("digits"))


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def masked(state, masks):
    return {name: tensor * masks[name] if name in masks else tensor for name, tensor in state.items()}


@pytest.mark.parametrize("method", ["imp", "imp-rate-rewinding", "imp-fine-tuning"])
def test_a_trained_start_is_level_0_as_it_is(tmp_path, saved, method):
    own = started(tmp_path, saved, trained=True, method=method)
    first, second, _ = run(tmp_path, own, keep_weights=True)
    digits, state = data.load("digits"), network().state_dict()
    wanted = evaluate(network(), digits.test, torch.arange(len(digits.test)), "fp32")
    assert (first.error, first.steps, first.density) == (wanted.error, 0, 1.0)
    assert second.steps == opened(tmp_path, own).times.total - opened(tmp_path, own).times.rewind
    assert same(chain_folder(tmp_path, own).network(0, state), state)


def test_weights_are_rewound_to_a_trained_start_at_every_level(tmp_path, saved):
    own = started(tmp_path, saved, trained=True, method="imp")
    records = run(tmp_path, own)
    chain, state = opened(tmp_path, own), network().state_dict()
    for done in (1, 2, 3):
        level = open_level(chain, records[:done]) if done < 3 else open_level(chain, records)
        assert count_kept(level.masks) == records[done - 1].following.nonzero
        assert same(level.network, state)
        assert level.first == chain.times.rewind
    smallest = torch.cat([state[name].abs().flatten() for name in chain.prunable]).sort().values
    kept = open_level(chain, records[:1]).masks
    pruned = torch.cat([state[name].abs()[~kept[name]] for name in chain.prunable]).sort().values
    assert torch.equal(pruned, smallest[: len(pruned)])


@pytest.mark.parametrize(
    ("method", "first"), [("imp-rate-rewinding", "rewind"), ("imp-fine-tuning", "total")]
)
def test_other_methods_train_the_last_weights_on(tmp_path, saved, method, first):
    own = started(tmp_path, saved, trained=True, method=method)
    records = run(tmp_path, own, cap=0)
    level = open_level(opened(tmp_path, own), records)
    assert same(level.network, masked(network().state_dict(), level.masks))
    assert level.first == getattr(opened(tmp_path, own).times, first)


def test_level_0_can_be_trained_from_the_file(tmp_path, saved):
    own = started(tmp_path, saved, trained=False, recipe={"rewind": 0})
    records = run(tmp_path, own, cap=1)
    assert [record.steps for record in records] == [16, 16]
    chain = opened(tmp_path, own)
    assert same(open_level(chain, []).network, network().state_dict())
    level = open_level(chain, records)
    assert same(masked(level.network, level.masks), masked(network().state_dict(), level.masks))
    other = run(tmp_path / "random", changed(CHAIN, recipe={"rewind": 0}), cap=1)
    assert [record.loss for record in records] != [record.loss for record in other]


def test_the_file_is_part_of_the_chain(tmp_path, saved):
    own = started(tmp_path, saved, trained=True)
    assert own.digest != CHAIN.digest
    assert own.digest != dataclasses.replace(own, start_trained=False).digest
    torch.save(network(seed=4).state_dict(), saved)
    assert own.digest != started(tmp_path, saved, trained=True).digest
    with pytest.raises(PrunecastError, match="was changed after the plan was read"):
        store_start(tmp_path / "other", saved, own.start)


def test_a_chain_goes_on_without_the_file_and_the_store_is_checked(tmp_path, saved):
    own = started(tmp_path, saved, trained=True, method="imp-fine-tuning")
    unbroken = run(tmp_path, own, cap=2)
    other = tmp_path / "other"
    started(other, saved, trained=True)
    saved.unlink()
    run(other, own, cap=0)
    run(other, own, cap=1)
    assert numbers(run(other, own, cap=2)) == numbers(unbroken)
    assert verify_store(other).faults == ()
    (kept,) = (other / "starts").iterdir()
    kept.write_bytes(kept.read_bytes()[:-1])
    (fault,) = verify_store(other).faults
    assert fault.text.startswith(f"{kept} is damaged")
    kept.unlink()
    with pytest.raises(PrunecastError, match=r"is missing. It holds the weights that the chain starts from"):
        run(other, own, cap=3)


def save_wrapped(model, path):
    wrapped = {f"module.{name}": tensor for name, tensor in model.state_dict().items()}
    torch.save({"epoch": 7, "state_dict": wrapped, "optimizer": {"lr": 0.1}}, path)


def save_without_counts(model, path):
    torch.save({k: v for k, v in model.state_dict().items() if "num_batches" not in k}, path)


def save_safetensors(model, path):
    from safetensors.torch import save_file

    save_file(model.state_dict(), path)


def save_old(model, path):
    torch.save(model.state_dict(), path, _use_new_zipfile_serialization=False)


def save_ours(model, path):
    write_tensors(path, model.state_dict(), {})


def save_half(model, path):
    torch.save(model.bfloat16().state_dict(), path)


SAVED = (save_wrapped, save_without_counts, save_safetensors, save_old, save_ours, save_half)


@pytest.mark.parametrize("save", SAVED, ids=lambda save: save.__name__)
def test_files_as_people_save_them(tmp_path, save):
    save(network(), tmp_path / "weights")
    own = started(tmp_path, tmp_path / "weights", trained=True)
    found, wanted = opened(tmp_path, own).untrained.state_dict(), network().state_dict()
    for name, tensor in wanted.items():
        torch.testing.assert_close(found[name], tensor, rtol=0.01 if save is save_half else 0, atol=0)


def without(state, name):
    return {key: value for key, value in state.items() if key != name}


STATE = network().state_dict()
LAST = list(STATE)[-1]
FIRST = next(iter(STATE))
NAN = torch.full_like(STATE[LAST], torch.nan)
WRONG = {
    "missing": (
        without(STATE, LAST),
        f"w.pt has no tensor '{LAST}', which digits_cnn of depth 3 and width 0.5 has; save the state dict of",
    ),
    "other": ({**STATE, "extra": torch.zeros(1)}, "w.pt has the tensor 'extra', which digits_cnn of depth 3"),
    "wider": (
        network(width=1).state_dict(),
        f"w.pt: the tensor '{FIRST}' has shape {tuple(network(width=1).state_dict()[FIRST].shape)}, but in digits_cnn "
        f"of depth 3 and width 0.5 it has {tuple(STATE[FIRST].shape)}; plan the depth and width of the saved network",
    ),
    "not finite": ({**STATE, LAST: NAN}, f"w.pt: the tensor '{LAST}' has values that are not finite"),
    "nothing": ({}, "w.pt holds no tensors; save the state dict of a network"),
    "a list": (
        [1, 2],
        "w.pt holds no weights that can be read; save them with torch.save(model.state_dict()",
    ),
    "complex": (
        {"x": torch.zeros(1, dtype=torch.complex64)},
        "the tensor 'x' is torch.complex64; save it as",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_other_tensors_are_refused_by_the_first_name(tmp_path, case):
    body, words = WRONG[case]
    path = tmp_path / "w.pt"
    torch.save(body, path)
    with pytest.raises(PrunecastError) as failure:
        fitting(read_start(path), CHAIN, network(), path.name)
    assert words in str(failure.value)
    assert "\n" not in str(failure.value)


class Evil:
    def __reduce__(self):
        return os.mkdir, ("ran",)


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04 no archive", b"\x80\x02 no pickle", bytes(100), b"\xff" * 50]
)
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "w.pt").write_bytes(content)
    with pytest.raises(PrunecastError, match="holds no weights that can be read"):
        read_start(tmp_path / "w.pt")


@pytest.mark.parametrize("save", [save_wrapped, save_safetensors, save_old], ids=lambda save: save.__name__)
def test_damaged_files_are_refused_in_a_sentence_or_read(tmp_path, save):
    path, chance = tmp_path / "w", random.Random(0)
    save(network(), path)
    whole, refused = path.read_bytes(), 0
    for _ in range(100):
        damaged = bytearray(whole[: chance.randrange(len(whole))] if chance.random() < 0.2 else whole)
        for _ in range(chance.randrange(5)):
            if damaged:
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        path.write_bytes(damaged)
        try:
            fitting(read_start(path), CHAIN, network(), path.name)
        except PrunecastError as refusal:
            refused += "\n" not in str(refusal)
    assert refused > 10


def test_no_code_of_a_pickle_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"a": Evil()}, "zip.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps({"a": Evil()}))
    for name in ("zip.pt", "plain.pt"):
        with pytest.raises(PrunecastError, match="holds no weights that can be read"):
            read_start(tmp_path / name)
    assert not (tmp_path / "ran").exists()


def test_missing_files_are_refused(tmp_path):
    with pytest.raises(
        PrunecastError, match=r"start: there is no file .*w.pt; give the path of a file of weights"
    ):
        start_digest(tmp_path / "w.pt")
    with pytest.raises(PrunecastError, match="it is not a regular file"):
        start_digest(tmp_path)


def test_specs_that_make_no_sense_are_refused():
    with pytest.raises(PrunecastError, match="start_trained needs a start"):
        changed(CHAIN, start_trained=True)
    with pytest.raises(PrunecastError, match="start is 3; give text in quotes"):
        changed(CHAIN, start=3)
    with pytest.raises(PrunecastError, match="trains every level from its start"):
        changed(CHAIN, start="0" * 20, start_trained=True, method=spec.method("synflow"))
