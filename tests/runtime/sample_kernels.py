"""Kernels for the tests of the compiler."""

from tarrafa.runtime.compiled_kernels import Kernel

KERNELS = {
    "total_8": Kernel("total", "uint8* int64"),
    "total_32": Kernel("total", "uint32* int64"),
    "choose": Kernel("choose", "int64"),
}


def total(numbers: list[int], length: int) -> int:
    found = 0
    for place in range(length):
        found += twice(numbers[place])
    return found


def twice(number: int) -> int:
    return 2 * number


def choose(number: int) -> int:
    """Many cases: LLVM puts a table of constants beside the code."""
    if number == 0:
        return 71
    if number == 1:
        return 828
    if number == 2:
        return 18
    if number == 3:
        return 2845
    if number == 4:
        return 90
    if number == 5:
        return 452
    return 3
