"""Real processes in a real gloo group, and training runs that they share."""

import dataclasses
import multiprocessing
import os
import pickle
import traceback

import torch
from torch import distributed, nn

from prunecast import data, families, spec
from prunecast.spec import rng, seed
from prunecast.training import (
    ALONE,
    ProcessGroup,
    copy_state,
    evaluate,
    prepare,
    set_state,
    settings,
    stepper,
    train,
)

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["torch._dynamo", "prunecast.pruning"])  # what DDP imports takes seconds
LOOPBACK = "127.0.0.1"
RECIPE = spec.recipe("digits").changed(
    {
        "epochs": 4,
        "batch_size": 33,
        "augmentation": "flip-shift",
        "weight_decay": 1e-2,
        "warmup": 0.5,
        "drops": [2],
    }
)


def in_a_group(size, function, *arguments, heard=None):
    """Call function(group, *arguments) in so many processes, and return what the `heard` of them returned."""
    store = distributed.TCPStore(LOOPBACK, 0, is_master=True, wait_for_workers=False)
    ends, members = [], []
    for rank in range(size):
        here, there = PROCESSES.Pipe(duplex=False)
        member = PROCESSES.Process(
            target=_member, args=(there, store.port, rank, size, function, arguments), daemon=True
        )
        member.start()
        there.close()
        ends.append(here)
        members.append(member)
    try:
        return [_result(end) for end in ends[:heard]]
    finally:
        for member in members:
            member.kill()
            member.join()


def _result(end):
    result, trace = pickle.loads(end.recv_bytes())
    assert not trace, trace
    return result


def _member(pipe, port, rank, size, function, arguments):
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    try:
        store = distributed.TCPStore(LOOPBACK, port, is_master=False)
        distributed.init_process_group("gloo", store=store, rank=rank, world_size=size)
        result = function(ProcessGroup(rank=rank, size=size), *arguments)
        pipe.send_bytes(
            pickle.dumps((result, ""))
        )  # tensors by value, not as files that end with their owner
        distributed.barrier()
    except Exception:
        pipe.send_bytes(pickle.dumps((None, traceback.format_exc())))


class Doubled:
    """The same examples in float64, optionally as if every batch were read from files."""

    def __init__(self, source, streams=False):
        self.source, self.labels, self.image_shape = source, source.labels, source.image_shape
        self.streams = streams

    def __len__(self):
        return len(self.source)

    def batch(self, indices, draws):
        return self.source.batch(indices, draws).double()


def network(kind):
    """A network in float64; "spare" has parameters that nothing uses."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(seed(0, "initialisation"))
    depth, width = (3, 0.5) if kind != "resnet" else (8, 0.25)
    family = "digits_cnn" if kind != "resnet" else "cifar_resnet"
    model = families.build(
        family, depth=depth, width=width, num_classes=10, generator=generator, image_shape=(1, 8, 8)
    )
    if kind == "spare":
        model.spare = nn.Linear(3, 4)
    if kind == "vectors":
        wide = nn.BatchNorm1d(64, momentum=None, affine=False)
        model = nn.Sequential(nn.Flatten(), wide, nn.Linear(64, 16), nn.BatchNorm1d(16), nn.Linear(16, 10))
    return model.double()


def trained(group=ALONE, kind="resnet", steps=10, changes=None, streams=False):
    """The state, mean loss and scores after some steps of a masked network."""
    digits = data.load("digits")
    recipe = RECIPE.changed(changes or {})
    examples = data.subsample(len(digits.train), 200, rng(0, "subsample"))
    model = network(kind)
    source = Doubled(digits.train, streams)
    bench = prepare(model, families.prunable(model), recipe, 0, source, examples, group)
    generator = torch.Generator().manual_seed(1)
    masks = {name: torch.rand(p.shape, generator=generator) < 0.5 for name, p in model.named_parameters()}
    set_state(bench, copy_state(bench), masks)
    with settings("fp32", torch.device("cpu"), 1):
        loss = train(bench, stepper(bench), 0, steps)
        scores = [
            evaluate(bench.model, Doubled(half), torch.arange(count), "fp32", group)
            for half, count in ((digits.test, 1197), (digits.train, 2))
        ]
    return copy_state(bench), loss, [dataclasses.astuple(score) for score in scores]
