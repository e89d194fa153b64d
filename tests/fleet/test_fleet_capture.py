"""Steps of networks that replace their tensors run without a CUDA graph, which would go on reading the old ones."""

from functools import partial

from fleet_digits import chain, doubled, open_double

from prunecast.fleet import FleetOptions, RunnerPool, runner
from prunecast.fleet.members import kind_of
from prunecast.fleet.step import EAGER, step


def test_a_network_that_replaces_a_tensor_is_not_captured(tmp_path, caplog):
    one = open_double(chain(family="fleet_own:centred", width=0.5), tmp_path, doubled())
    kind, pool = kind_of(one), RunnerPool([one.spec], FleetOptions())
    assert not pool.add(kind, one)
    trainer = pool.take(kind, (0.5,), one).trainer
    assert not runner._warm_up_for_capture(trainer, partial(step, trainer, trainer.pack.module, EAGER))
    assert "The network replaces its tensor '1.centre', so its steps run without a CUDA graph." in caplog.text
