"""The ways to run a kernel: compiled; compiled with bounds checks; and the Python way that defines it."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType

from numba import njit

from tarrafa.runtime.compiled_kernels import CompiledKernels

PYTHON, COMPILED = "python", "compiled"
WAYS = (PYTHON, COMPILED)


@contextmanager
def in_the_way(way: str, kernels: CompiledKernels) -> Iterator[None]:
    """Run the body with these kernels compiled, or without them."""
    if way == COMPILED:
        kernels.require()
    before = kernels.is_enabled
    kernels.is_enabled = way == COMPILED
    yield
    kernels.is_enabled = before


def with_bounds_checks(name: str) -> ModuleType:
    """A copy of a kernel module, compiled with bounds checks."""
    found = importlib.util.find_spec(name)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    for key, value in list(vars(module).items()):
        if isinstance(value, FunctionType):
            setattr(module, key, njit(error_model="numpy", boundscheck=True)(value))
    return module
