"""The same rounding on every x86-64 processor: import this before numpy.

OpenBLAS and numpy choose their instructions by the processor, and sums in another order differ in the last digit.
A search along a flat valley turns that into the fourth digit of a parameter that the data hardly determine. What tests
hold and `make renew` writes is computed with the instructions that all processors with AVX2 have. Child processes
inherit it.
"""

import os
import platform
import warnings

if platform.machine() in ("x86_64", "AMD64"):
    os.environ["OPENBLAS_CORETYPE"] = "Haswell"
    os.environ["NPY_DISABLE_CPU_FEATURES"] = "X86_V4 AVX512_ICL AVX512_SPR"

with warnings.catch_warnings():
    warnings.simplefilter("ignore", ImportWarning)  # for processors that lack what is disabled
    import numpy as np  # noqa: F401
