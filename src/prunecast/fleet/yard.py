"""Where packs are built and kept: shapes, prototypes, runners to be used again, and the budget of widths."""

import contextlib
import gc
import logging
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch

from prunecast.fleet.beside import Beside
from prunecast.fleet.build import Builder
from prunecast.fleet.gates import MODULES
from prunecast.fleet.measure import measured_budget
from prunecast.fleet.members import Kind, Member
from prunecast.fleet.meter import Meter
from prunecast.fleet.options import BUDGET, CANDIDATES, ON_CPU, Options
from prunecast.fleet.pack import pack
from prunecast.fleet.runner import Runner
from prunecast.fleet.shapes import Shape, shape_of
from prunecast.fleet.site import Site, free_bytes, words
from prunecast.fleet.streams import streams_left
from prunecast.pruning import Chain
from prunecast.spec import ChainSpec

LOG = logging.getLogger(__name__)


class Yard:
    """All packs of a fleet; its methods may be called from any thread."""

    def __init__(self, specs: Sequence[ChainSpec], options: Options, packs: int | None = None) -> None:
        """Nothing is built yet; `packs` are expected to train at once, as many as there are workers unless told."""
        self._options, self._builder = options, Builder(specs, options, packs)
        self._sites: dict[Kind, Site] = {}
        self._returned = threading.Condition()
        """Held by who looks at sites or changes them; told when a runner is idle again."""
        self._maker = self._thread("build")
        """Makes all packs, because the libraries remember their choices of algorithms by thread."""
        self.beside = Beside(self._thread("compile"))
        """Compiles for packs beside their training."""
        self.meter = Meter()

    def _thread(self, name: str) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(
            1, name, initializer=torch.set_num_threads, initargs=(self._options.threads,)
        )

    def check(self, kind: Kind, chain: Chain) -> None:
        """Raise `Unpackable` where networks of this kind cannot be packed."""
        if kind not in self._sites:
            pack([chain.untrained], image_shape=chain.dataset.train.image_shape)
            with self._returned:  # others go through all sites
                self._sites[kind] = Site(compiling=self._options.compile)

    def budget(self, kind: Kind, members: Sequence[Member]) -> float:
        """The widths that one pack may add up to, measured where that makes a difference."""
        site = self._sites[kind]
        if site.budget is not None:
            return site.budget
        if kind.device.type != "cuda":
            return self._options.budget or ON_CPU
        total = sum(member.width for member in members)
        useful = [size for size in CANDIDATES if size < 2 * total]
        if self._options.budget or len(useful) < 2:
            return self._options.budget or BUDGET
        widths = [member.width for member in members]
        dtype = next(members[0].chain.untrained.parameters()).dtype
        with self.beside.put_off(), self.meter.doing("waiting"):
            measuring = self._maker.submit(measured_budget, self._builder, kind, widths, useful, dtype)
            site.budget = measuring.result()
        return site.budget

    def shape(self, kind: Kind, members: Sequence[Member]) -> Shape:
        """The narrowest known shape that holds them, or a new one that just does where that pays."""
        # Not under the lock: this may wait for who builds, and who builds waits for the lock.
        fused = self._builder.fuses(kind, shape_of(members))
        with self._returned:
            return self._sites[kind].shape(members, fused=fused)

    def compiles(self, kind: Kind, shape: Shape) -> bool:
        """Whether packs go on compiled: unfused on a GPU where that pays, elsewhere where it is asked for."""
        if self._builder.fuses(kind, shape):
            return False
        on_gpu = kind.device.type == "cuda"
        return bool(self._sites[kind].compiling) and (on_gpu or self._options.compile is True)

    def shrink(self, kind: Kind, shape: Shape) -> None:
        """Give back what a pack too large for the memory took, and make smaller ones from now on."""
        with self._returned:
            site = self._sites[kind]
            site.shrink(shape)
            self._drop_idle()
        LOG.warning("A pack of width %g does not fit into the memory; trying %g.", sum(shape), site.budget)

    def give_up(self, kind: Kind, shape: Shape, runner: Runner | None, failure: Exception) -> bool:
        """Go on in a simpler way after a failure in a fused or compiled pack; False where there is none."""
        if runner is None or runner.way == "written":
            return False
        if runner.way == "fused":
            self._builder.give_up_fusing(kind, shape, failure)
        else:
            LOG.warning("A compiled pack failed, so the fleet goes on uncompiled: %r", failure)
        with self._returned:
            if runner.way == "compiled":
                self._sites[kind].compiling = False
            self._drop_idle()
        return True

    @contextlib.contextmanager
    def runner(self, kind: Kind, shape: Shape, chain: Chain) -> Iterator[Runner]:
        """Lend an idle runner of this shape, or build one if the memory allows."""
        site = self._sites[kind]
        runner = self._borrow(site, kind, shape, chain)
        try:
            try:
                yield runner
            finally:
                runner.rest()
        except BaseException:
            with self._returned:  # its tensors are in an unknown state
                site.made[shape] -= 1
                self._returned.notify_all()
            raise
        with self._returned:
            site.idle.setdefault(shape, []).append(runner)
            self._returned.notify_all()

    def clear(self) -> None:
        """Let go of all memory."""
        self._maker.shutdown(wait=True, cancel_futures=True)
        self.beside.close()
        with self._returned:
            self._sites.clear()
        gc.collect()  # modules refer to themselves, and graphs must be gone before the device's driver is
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _borrow(self, site: Site, kind: Kind, shape: Shape, chain: Chain) -> Runner:
        while True:
            if (idle := self._idle(site, shape)) is not None:
                return idle
            with self.beside.put_off(), self.meter.doing("waiting"):
                made = self._maker.submit(self._obtain, site, kind, shape, chain).result()
            if made is not None:
                return made
            with self._returned:
                self._returned.wait_for(lambda: site.idle.get(shape), timeout=1.0)

    def _obtain(self, site: Site, kind: Kind, shape: Shape, chain: Chain) -> Runner | None:
        """An idle runner or a new one, or nothing where the memory is full."""
        with MODULES.alone():  # so that the last one to build has told what it took
            if (idle := self._idle(site, shape)) is not None:
                return idle
            room = self._room(site, kind, shape)
            if not room:
                self._drop_idle()
            return self._build(site, kind, shape, chain) if room or not site.made.get(shape) else None

    def _idle(self, site: Site, shape: Shape) -> Runner | None:
        with self._returned:
            return site.take(shape)

    def _room(self, site: Site, kind: Kind, shape: Shape) -> bool:
        """Whether another runner of a shape fits, with as much again for evaluation, and a stream is left for it.

        One of a shape never built is taken to be as large as the largest.
        """
        device = kind.device
        if device.type != "cuda":
            return True
        if streams_left() < 2 * self._options.workers:  # those who train alone need some, too
            return False
        free = torch.cuda.mem_get_info(device)[0]
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return free + unused > 2 * site.bytes.get(shape, max(site.bytes.values(), default=0))

    def _drop_idle(self) -> None:
        with self._returned:
            for site in self._sites.values():
                site.drop_idle()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _build(self, site: Site, kind: Kind, shape: Shape, chain: Chain) -> Runner:
        """A pack that can begin at once; steps that must be compiled first take over when they are ready."""
        began = time.perf_counter()
        device = kind.device
        before = free_bytes(device)
        if shape not in site.prototypes:
            dtype = next(chain.untrained.parameters()).dtype
            site.prototypes[shape] = self._builder.prototype(kind, shape, dtype)
        compiled = shape in site.compiled and self.compiles(kind, shape)
        runner = self._builder.runner(kind, shape, site.prototypes[shape], compiled=compiled)
        later = not compiled and self.compiles(kind, shape)  # also where fusing has just failed
        site.bytes[shape] = max(before - free_bytes(device), site.bytes.get(shape, 0))
        if later and self._room(site, kind, shape):
            self.beside.submit(partial(self._improve, site, kind, shape, weakref.ref(runner)))
        elif later:
            del runner  # there is no room for two
            runner = self._compiled(site, kind, shape)
        with self._returned:
            site.made[shape] = site.made.get(shape, 0) + 1
        told = f" and takes {site.bytes[shape] / 2**30:.1f} GiB" if device.type == "cuda" else ""
        LOG.info("%s is ready after %.1f s%s.", words(shape), time.perf_counter() - began, told)
        return runner

    def _improve(self, site: Site, kind: Kind, shape: Shape, slow: "weakref.ref[Runner]") -> None:
        """Compile for a runner beside its training, unless it is gone."""
        runner, began = slow(), time.perf_counter()
        if runner is None or not site.compiling or not self._room(site, kind, shape):
            return
        try:
            with self.meter.doing("compiling"):
                faster = self._compiled(site, kind, shape)
        except torch.OutOfMemoryError:
            LOG.warning("%s goes on uncompiled, because the memory does not hold it twice.", words(shape))
            return
        except Exception as failure:
            LOG.warning("Packs go on uncompiled: %r", failure)
            site.compiling = False
            return
        if site.compiling:
            runner.faster = faster
            LOG.info("%s goes on compiled, after %.1f s.", words(shape), time.perf_counter() - began)

    def _compiled(self, site: Site, kind: Kind, shape: Shape) -> Runner:
        """A runner that starts compiled, or as it is written where that fails: then nobody tries again."""
        with MODULES.alone():
            runner = self._builder.runner(kind, shape, site.prototypes[shape], compiled=True)
        with self._returned:
            site.note_compiled(shape, runner)
        return runner
