"""A kernel that needs a library, which the compiler refuses."""

import math

from tarrafa.runtime.compiled_kernels import Kernel

KERNELS = {"wave": Kernel("wave", "int64")}


def wave(number: int) -> int:
    return int(1000 * math.sin(number))
