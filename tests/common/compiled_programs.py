"""Programs of a fleet that torch.compile takes apart and puts together again, without a compiler for C++."""

from collections import Counter

import torch

from prunecast.fleet.step import EAGER, Programs


def compiled(counts: Counter) -> Programs:
    """The programs, which count how often they are called."""

    def counting(name, function):
        whole = torch.compile(function, backend="aot_eager", dynamic=False)

        def call(*given):
            counts[name] += 1
            return whole(*given)

        return call

    return Programs(**{name: counting(name, function) for name, function in vars(EAGER).items()})
