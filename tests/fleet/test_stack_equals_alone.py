"""Members of a stack train as they do alone, and draw their own noise."""

import copy
from functools import partial

import pytest
import torch
from fleet_digits import chain, fleet, jobs_of, plain
from fleet_training import batches, prune_randomly, randomised, taken_out, train_alone, train_packed
from stacked_nets import Attentive, Encoder, Grouped, Written
from test_fleet_equals_plain import MODERN, assert_same_store
from test_pack_equals_alone import largest_difference, side_by_side
from torch import nn
from torch.nn import functional as F  # noqa: N812

from prunecast import families
from prunecast.fleet import Unpackable, runner_pool, stacked_layers
from prunecast.fleet.stack import Stack, known_attention, noise_of, refuse_unstackable, stack

STEPS, BATCH, SIZE = 20, 6, 8
SHAPE = (3, SIZE, SIZE)


def built_in(width):
    generator = torch.Generator().manual_seed(1)
    sizes = {"depth": 2, "width": width / 8, "num_classes": 10, "image_shape": SHAPE}
    return families.build("vit_patch4", **sizes, generator=generator)


def name_of(make):
    """The name of a function or class, the same in every process."""
    return getattr(make, "__name__", None) or f"{make.func.__name__}-{make.keywords}"


@pytest.mark.parametrize(
    "make",
    [
        *(built_in, Encoder, partial(Encoder, norm_first=False), Written, Attentive, Grouped),
        *(partial(Encoder, dropout=0.3), partial(Attentive, dropout=0.3), partial(Grouped, dropout=0.3)),
    ],
    ids=name_of,
)
def test_steps_agree(make):
    members = [randomised(make(1.0), seed) for seed in range(3)]
    masks = [prune_randomly(member, seed) for seed, member in enumerate(members)]
    data = [batches(seed, steps=STEPS, batch=BATCH, size=SIZE) for seed in range(len(members))]
    packed = stack(members[0], 4, image_shape=SHAPE, batch=BATCH, dtype=torch.float64)
    for slot, (member, own) in enumerate(zip(members, masks, strict=True), 1):  # the first slot stays empty
        packed.load(slot, {**dict(member.named_buffers()), **member.state_dict()}, own)
    drawn = noise_of(packed)
    if drawn is not None:
        packed.module.register_forward_pre_hook(lambda *_: drawn.draw())
        for slot in range(3):
            drawn.generators[slot + 1].manual_seed(slot)
    momenta = train_packed(packed, side_by_side([data[0], *data]))
    for slot, member in enumerate(members):
        torch.manual_seed(slot)
        own = copy.deepcopy(member).to(memory_format=torch.channels_last)
        alone = train_alone(own, masks[slot], data[slot])
        assert largest_difference(packed.layout.read(momenta, slot + 1), alone["momenta"]) < 1e-9
        found = taken_out(packed, slot + 1)
        wanted = alone["state"]
        assert largest_difference({name: found[name] for name in wanted}, wanted) < 1e-9


@pytest.mark.parametrize(
    ("family", "recipe", "widths"),
    [
        ("vit_patch4", MODERN, (0.125, 0.0625)),
        ("stacked_nets:digits_attention", {}, (0.5, 1.0)),
        ("stacked_nets:digits_encoder", MODERN, (0.5,)),
    ],
)
def test_whole_chains_leave_the_plain_store(tmp_path, family, recipe, widths, caplog):
    brief = {**recipe, "epochs": 3, "rewind": 1.0}
    specs = [
        chain(family=family, depth=1, width=width, recipe=brief, replicate=replicate)
        for width in widths
        for replicate in range(2)
    ]
    jobs = jobs_of(specs, cap=1)
    plain(jobs, tmp_path / "plain")
    with caplog.at_level("INFO"):
        list(fleet(jobs, tmp_path / "fleet"))
    assert_same_store(jobs, tmp_path / "fleet", tmp_path / "plain")
    ready = [text for text in caplog.messages if "is ready" in text]
    assert len(ready) == len(widths)
    assert all(text.startswith("A pack of 2 networks") for text in ready)


class Forgetful(nn.Linear):
    """Sets its buffer anew instead of changing it, which a stack would not see."""

    def __init__(self):
        super().__init__(3, 10)
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x):
        x = x.mean((2, 3))
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0).detach()
        return super().forward(x - self.mean)


class NoisyLayer(nn.Linear):
    def forward(self, x):
        return super().forward(F.dropout(x.mean((2, 3)), 0.5, self.training))


class Choosy(nn.Linear):
    def forward(self, x):
        x = x.mean((2, 3))
        return super().forward(x if x.sum() > 0 else -x)


class Rows(nn.Linear):
    def forward(self, x):
        return super().forward(x.transpose(1, 3))


class Twins(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(3, 10), nn.Linear(3, 10)
        self.two.weight = self.one.weight

    def forward(self, x):
        return self.one(x.mean((2, 3))) + self.two(x.mean((2, 3)))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Forgetful(), "gives different results when it is stacked with other networks"),
        (NoisyLayer(3, 10), "cannot be run for several networks at once"),
        (Choosy(3, 10), "cannot be run for several networks at once"),
        (Rows(3, 10), "does not return one row of class scores"),
        (Twins(), "are one tensor"),
    ],
)
def test_what_a_stack_would_get_wrong_is_refused(model, words):
    with pytest.raises(Unpackable, match=words):
        refuse_unstackable(model, image_shape=SHAPE)


@pytest.mark.parametrize("make", [built_in, Encoder, Written, Attentive, Grouped], ids=name_of)
def test_products_are_made_in_bfloat16_where_autocast_would(make):
    network, images = make(1.0), torch.randn(2, 4, *SHAPE)
    packed = stack(network, 2, image_shape=SHAPE, batch=4, low=torch.bfloat16)
    formats = {}
    for name, module in packed.module.named_modules():
        if isinstance(module, nn.Linear | nn.Conv2d | nn.LayerNorm):
            module.register_forward_hook(lambda *given, name=name: formats.update({name: given[-1].dtype}))
    for slot in range(2):
        packed.load(slot, {**dict(network.named_buffers()), **network.state_dict()})
    with torch.autocast("cpu", torch.bfloat16):
        together, alone = packed.module(images), [network(own) for own in images]
    for slot in range(2):
        torch.testing.assert_close(together[:, slot].float(), alone[slot].float(), rtol=0.05, atol=0.05)
    for name, found in formats.items():
        norm = isinstance(packed.module.get_submodule(name), nn.LayerNorm)
        assert found == (torch.float32 if norm else torch.bfloat16)
    assert formats


def test_a_stack_trains_whatever_mode_its_network_was_in():
    network = Encoder(1.0, dropout=0.5).eval()
    packed = stack(network, 1, image_shape=SHAPE, batch=4)
    assert all(module.training for module in packed.module.modules())
    assert not network.training


def test_a_stack_that_fails_on_the_device_trains_its_members_alone(tmp_path, monkeypatch, caplog):
    brief = {"epochs": 2, "rewind": 1.0}
    own = [chain(family="vit_patch4", depth=1, width=0.0625, recipe=brief, replicate=k) for k in range(3)]
    jobs = jobs_of(own, cap=1)
    plain(jobs, tmp_path / "plain")

    def failing(*_):
        raise RuntimeError("no kernel for this")

    monkeypatch.setattr(Stack, "forward", failing)
    monkeypatch.setattr(runner_pool, "refuse_unstackable", lambda *_, **__: None)
    with caplog.at_level("INFO"):
        list(fleet(jobs, tmp_path / "fleet"))
    assert_same_store(jobs, tmp_path / "fleet", tmp_path / "plain")
    (path,) = {text for text in caplog.messages if "trains unpacked" in text}
    assert path.startswith(
        "vit_patch4 of depth 1 trains unpacked, several networks at the same time. Faster modes are not used: "
    )
    assert path.endswith("Stacks fail here: no kernel for this")


def test_one_line_says_how_a_family_trains(tmp_path, caplog):
    brief = {"epochs": 1, "rewind": 0.0}
    ways = ["digits_cnn", "vit_patch4", "fleet_own:choosy"]
    specs = [
        chain(family=own, depth=3, width=0.5, recipe=brief, replicate=k) for own in ways for k in range(2)
    ]
    with caplog.at_level("INFO", "prunecast.paths"):
        list(fleet(jobs_of(specs, cap=0), tmp_path))
    told = sorted(own.getMessage() for own in caplog.records if own.name == "prunecast.paths")
    assert [text.partition(" trains ")[2].partition(".")[0] for text in told] == [
        *("in packs, eager", "unpacked, several networks at the same time"),
        "in stacks, eager",
    ]
    assert "Operation 'flatten'" in told[2]
    assert "cannot be run for several networks at once" in told[1]


def test_devices_on_which_stacks_were_not_tried_train_networks_alone(tmp_path, monkeypatch, caplog):
    brief = {"epochs": 2, "rewind": 1.0}
    own = [chain(family="vit_patch4", depth=1, width=0.0625, recipe=brief, replicate=k) for k in range(2)]
    jobs = jobs_of(own, cap=1)
    plain(jobs, tmp_path / "plain")
    monkeypatch.setattr(runner_pool, "STACKED_ON", ())
    with caplog.at_level("INFO"):
        list(fleet(jobs, tmp_path / "fleet"))
    assert_same_store(jobs, tmp_path / "fleet", tmp_path / "plain")
    assert all(text.startswith("A pack of 1 network,") for text in caplog.messages if "is ready" in text)
    (path,) = (text for text in caplog.messages if "trains unpacked" in text)
    assert path.endswith("Stacks have not been tried on cpu.")


@pytest.mark.parametrize(
    ("wrong_in", "words"),
    [
        (torch.float64, "when it is stacked with other networks\\.$"),
        (torch.bfloat16, "when it is stacked with other networks on cpu\\.$"),
    ],
)
def test_a_stack_with_other_gradients_is_refused(monkeypatch, wrong_in, words):
    right = stacked_layers.StackedAttention.forward

    def forward(self, qkv):
        found = right(self, qkv)
        return found.detach() if qkv.dtype == wrong_in else found

    own = {"image_shape": SHAPE, "low": torch.bfloat16}
    refuse_unstackable(built_in(1.0), **own)
    monkeypatch.setattr(stacked_layers.StackedAttention, "forward", forward)
    with pytest.raises(Unpackable, match=f"has different gradients {words}"):
        refuse_unstackable(built_in(1.0), **own)


def test_attention_of_a_stack_on_cuda_keeps_what_its_backward_pass_reads():
    with known_attention(torch.device("cuda")):
        assert torch.backends.cuda.flash_sdp_enabled()
        assert torch.backends.cuda.math_sdp_enabled()
        assert not torch.backends.cuda.cudnn_sdp_enabled()
        assert not torch.backends.cuda.mem_efficient_sdp_enabled()
