"""Forward-mode differentiation by dual numbers, so that a formula is written once and differentiated exactly."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from prunecast.errors import PrunecastError
from prunecast.text import listed

Array = Any
"""An array of floats, or a dual number of them."""

SLOPES: dict[np.ufunc, tuple[Callable[..., Array], ...]] = {
    np.add: (lambda result, a, b: 1.0, lambda result, a, b: 1.0),
    np.subtract: (lambda result, a, b: 1.0, lambda result, a, b: -1.0),
    np.multiply: (lambda result, a, b: b, lambda result, a, b: a),
    np.divide: (lambda result, a, b: 1 / b, lambda result, a, b: -result / b),
    np.power: (lambda result, a, b: b * result / a, lambda result, a, b: result * np.log(a)),
    np.maximum: (
        lambda result, a, b: np.where(a >= b, 1.0, 0.0),
        lambda result, a, b: np.where(a >= b, 0.0, 1.0),
    ),
    np.minimum: (
        lambda result, a, b: np.where(a <= b, 1.0, 0.0),
        lambda result, a, b: np.where(a <= b, 0.0, 1.0),
    ),
    np.logaddexp: (lambda result, a, b: np.exp(a - result), lambda result, a, b: np.exp(b - result)),
    np.negative: (lambda result, a: -1.0,),
    np.square: (lambda result, a: 2 * a,),
    np.absolute: (lambda result, a: np.sign(a),),
    np.exp: (lambda result, a: result,),
    np.expm1: (lambda result, a: result + 1,),
    np.log: (lambda result, a: 1 / a,),
    np.log2: (lambda result, a: 1 / (a * np.log(2)),),
    np.log10: (lambda result, a: 1 / (a * np.log(10)),),
    np.log1p: (lambda result, a: 1 / (1 + a),),
    np.sqrt: (lambda result, a: 0.5 / result,),
    np.tanh: (lambda result, a: 1 - result**2,),
}
"""The derivative of each operation by each of its arguments, from its result and its arguments."""


@dataclass(frozen=True, eq=False)
class Dual(NDArrayOperatorsMixin):
    """A value and its derivatives by the parameters it depends on, under their columns."""

    value: Array
    slopes: dict[int, Array]

    def __array_ufunc__(self, operation: np.ufunc, method: str, *inputs: Array) -> "Dual":
        """The chain rule; numpy calls this for every operation on a dual number."""
        if operation not in SLOPES or method != "__call__":
            raise _not_differentiable(operation.__name__)
        values = [argument.value if isinstance(argument, Dual) else argument for argument in inputs]
        result = operation(*values)
        slopes: dict[int, Array] = {}
        for argument, by_argument in zip(inputs, SLOPES[operation], strict=True):
            if isinstance(argument, Dual):
                outer = by_argument(result, *values)
                for column, inner in argument.slopes.items():
                    slope = outer * inner
                    slopes[column] = slopes[column] + slope if column in slopes else slope
        return Dual(result, slopes)

    def __array_function__(self, function: Callable[..., Array], types: Any, args: Any, kwargs: Any) -> Array:
        """Refuse the functions of numpy that are not elementwise operations, such as where, sum and clip."""
        raise _not_differentiable(function.__name__)


def _not_differentiable(name: str) -> PrunecastError:
    known = listed(sorted(operation.__name__ for operation in SLOPES))
    return PrunecastError(f"numpy.{name} cannot be differentiated here; use {known}")
