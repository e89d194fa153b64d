"""How long a plan takes on the device at hand: real steps are timed, and the rest is counted.

Timed are steps on images of noise in the shape of the data (the time of a step does not depend on what the images
show). On a GPU the chains that a fleet packs are reckoned as its packs, all others one after the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from prunecast.sweep.estimate_alone import Timing, one_by_one
from prunecast.sweep.estimate_fleet import Reckoned, as_a_fleet
from prunecast.sweep.estimate_packs import PackTiming
from prunecast.sweep.grid import PlannedChain
from prunecast.sweep.plan import Plan
from prunecast.sweep.work import torch_device


@dataclass(frozen=True, kw_only=True)
class Share:
    """The chains of a plan that are reckoned in one way."""

    chains: int = 0
    training_runs: int = 0
    """The most there can be: chains that reach their level cap."""
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """How long a plan takes at most."""

    device: str
    timings: tuple[Timing, ...] = ()
    """Of networks alone."""
    alone: Share = Share()
    """Chains one after the other."""
    packs: tuple[PackTiming, ...] = ()
    """Of packs, as they are written and then compiled."""
    fleet: Share = Share()
    """Chains packed together, as a fleet trains them."""
    overstated: bool = False
    """Whether the fleet compiles packs whose time here is that of uncompiled ones."""


def estimate(plan: Plan, device: str = "cpu", *, fleet: bool | None = None) -> Estimate:
    """Time a few networks or packs of a plan on a device and add up its trainings.

    Chains are packed where a sweep would pack them, that is on a GPU; `fleet` asks for it, or against it, anywhere.
    """
    place = torch_device(device)
    packed = place.type == "cuda" if fleet is None else fleet
    found = as_a_fleet(plan.chains, place) if packed else Reckoned(rest=plan.chains)
    timings, apart = one_by_one(found.rest, place)
    left = {id(chain) for chain in found.rest}
    return Estimate(
        device=_name(place),
        timings=tuple(timings),
        alone=_share(found.rest, apart),
        packs=found.packs,
        fleet=_share([chain for chain in plan.chains if id(chain) not in left], found.seconds),
        overstated=found.overstated,
    )


def _share(chains: Sequence[PlannedChain], seconds: float) -> Share:
    runs = sum(chain.rules.level_cap + 1 for chain in chains)
    return Share(chains=len(chains), training_runs=runs, seconds=seconds)


def _name(device: torch.device) -> str:
    """The device in words; of several GPUs, on which a sweep would take less, one was timed."""
    if device.type != "cuda":
        return device.type
    name, count = torch.cuda.get_device_name(device), torch.cuda.device_count()
    return name if count == 1 or device.index is not None else f"one of {count} {name}"
