"""Compiles a module of kernels with numba into a file of machine code that needs neither numba nor LLVM to run.

`python -m tarrafa.runtime.kernel_compiler`, started by `compiled_kernels` at low priority. numba makes LLVM code
of each kernel, LLVM makes an ELF object of it, and `_link` lays the sections of all objects one after the other and
fills in the distances between them. The result works at any address: a process that needs the kernels maps the file.

Promises: the code is for the oldest processor of the machine's architecture, so that a home folder may be shared by
several machines. Code that refers to anything outside of itself (libc, Python, numba's runtime) is refused, and so is
an architecture other than x86-64: then the Python way stays in use. One compilation of a module at a time (by a lock).
"""

import importlib
import os
import struct
import sys
from collections.abc import Iterable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import NamedTuple

from tarrafa.runtime.child_process import EXIT_RETRY, run_child
from tarrafa.runtime.compiled_kernels import Kernel, lock_path, pack_code, prune_folder
from tarrafa.runtime.data_dir import try_lock, write_atomically

NICENESS = 10  # at 19, on processors that a crawl keeps busy, three seconds of work take minutes
OPTIMIZATION = 3
_LLVM_TYPES = {"int64": "i64", "float64": "double"}

# ELF-64 (System V ABI, "Object Files"; AMD64 supplement, "Relocation")
_HEADER, _SECTION, _SYMBOL, _RELOCATION = (
    struct.Struct(form) for form in ("<16sHHIQQQIHHHHHH", "<IIQQQQIIQQ", "<IBBHQQ", "<QQq")
)
_SYMBOLS, _RELOCATIONS = 2, 4  # types of sections
_IN_MEMORY, _WRITABLE = 2, 1  # flags of sections
_DISTANCES = frozenset({2, 4})  # R_X86_64_PC32 and R_X86_64_PLT32: from the place that is patched to a symbol


class UnsupportedCode(Exception):
    """The compiled code needs more than a mapped file can give."""


class _Section(NamedTuple):
    name: str
    kind: int
    flags: int
    content: bytes
    link: int
    info: int
    alignment: int


class _Placed(NamedTuple):
    """An object whose sections have their places in the linked code."""

    sections: list[_Section]
    places: dict[int, int]


def compile_module(name: str) -> bytes:
    """The file of the kernels of a module."""
    os.environ |= {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    from numba import cfunc, njit

    module = importlib.import_module(name)
    kernels: dict[str, Kernel] = module.KERNELS
    plain = {name: value for name, value in vars(module).items() if isinstance(value, FunctionType)}
    _replace_functions(module, plain, njit(error_model="numpy"))
    objects = []
    for kernel_name, kernel in kernels.items():
        compiled = cfunc(numba_signature(kernel), error_model="numpy")(plain[kernel.function])
        objects.append(_emit_object(compiled.inspect_llvm(), compiled.native_name, kernel_name, kernel))
    code, places = _link(objects)
    return pack_code(code, {name: places[name] for name in kernels})


def _replace_functions(module: ModuleType, plain: dict[str, FunctionType], compiled: object) -> None:
    """Kernels call each other by the names of the module: there the compiled ones must be found."""
    for name, function in plain.items():
        if function.__module__ == module.__name__:
            setattr(module, name, compiled(function))  # type: ignore[operator]


def numba_signature(kernel: Kernel) -> str:
    """`int64(CPointer(uint8), int64)` of `uint8* int64`."""
    words = [f"CPointer({word[:-1]})" if word.endswith("*") else word for word in kernel.arguments.split()]
    return f"int64({', '.join(words)})"


def _emit_object(llvm_code: str, wrapper: str, name: str, kernel: Kernel) -> bytes:
    """The object of one kernel. numba's wrapper of it, which would report exceptions to Python, is replaced by one that
    knows nothing of Python: a kernel that can raise refers to data outside of its code, and is refused.
    """
    from llvmlite import binding

    types = ["ptr" if word.endswith("*") else _LLVM_TYPES[word] for word in kernel.arguments.split()]
    names = [f"{kind} %a{number}" for number, kind in enumerate(types)]
    module = binding.parse_assembly(f"""{llvm_code}
        define i64 @{name}({", ".join(names)}) {{
            %result = alloca i64
            %error = alloca ptr
            call i32 @"{wrapper.removeprefix("cfunc.")}"({", ".join(["ptr %result", "ptr %error", *names])})
            %value = load i64, ptr %result
            ret i64 %value
        }}""")
    module.get_function(wrapper).linkage = "available_externally"  # not emitted
    machine = binding.Target.from_default_triple().create_target_machine(
        opt=OPTIMIZATION, reloc="pic", codemodel="small"
    )
    emitted: bytes = machine.emit_object(module)
    return emitted


def _link(objects: Iterable[bytes]) -> tuple[bytes, dict[str, int]]:
    """The code of all objects as one piece, and the places of its functions."""
    code, placed, functions = bytearray(), [], dict[str, int]()
    for content in objects:
        sections = _sections(content)
        places: dict[int, int] = {}
        for number, section in enumerate(sections):
            if section.flags & _IN_MEMORY and not section.flags & _WRITABLE and section.name != ".eh_frame":
                code += bytes(-len(code) % max(1, section.alignment))
                places[number] = len(code)
                code += section.content
        placed.append(_Placed(sections, places))
    for one in placed:
        for section in one.sections:
            if section.kind == _RELOCATIONS and section.info in one.places:
                _relocate(code, one, section)
            elif section.kind == _SYMBOLS:
                names = one.sections[section.link].content
                for name, _, _, home, value, _ in _SYMBOL.iter_unpack(section.content):
                    if home in one.places:
                        functions[_name(names, name)] = one.places[home] + value
    return bytes(code), functions


def _sections(content: bytes) -> list[_Section]:
    header = _HEADER.unpack_from(content)
    if header[0][:6] != b"\x7fELF\x02\x01" or header[2] != 62:  # 64 bits, little-endian, EM_X86_64
        raise UnsupportedCode("not an object for x86-64")
    start, count, names_number = header[6], header[12], header[13]
    rows = [_SECTION.unpack_from(content, start + number * _SECTION.size) for number in range(count)]
    names = content[rows[names_number][4] :]
    return [
        _Section(_name(names, row[0]), row[1], row[2], content[row[4] : row[4] + row[5]], row[6], row[7], row[8])
        for row in rows
    ]


def _name(names: bytes, start: int) -> str:
    return names[start : names.index(b"\x00", start)].decode()


def _relocate(code: bytearray, placed: _Placed, relocations: _Section) -> None:
    symbols = placed.sections[relocations.link]
    for place, info, addend in _RELOCATION.iter_unpack(relocations.content):
        name, _, _, home, value, _ = _SYMBOL.unpack_from(symbols.content, (info >> 32) * _SYMBOL.size)
        if info & 0xFFFFFFFF not in _DISTANCES or home not in placed.places:
            names = placed.sections[symbols.link].content
            raise UnsupportedCode(f"relocation {info & 0xFFFFFFFF} to {_name(names, name) or home}")
        patched = placed.places[relocations.info] + place
        struct.pack_into("<i", code, patched, placed.places[home] + value + addend - patched)


def main(kernels: str, path: str) -> None:
    """Started by `compiled_kernels`."""
    os.nice(NICENESS)
    file = Path(path)
    lock = try_lock(lock_path(file, kernels))
    if lock is None:
        sys.exit(EXIT_RETRY)
    with lock:
        if not file.exists():
            write_atomically(file, compile_module(kernels), durable=False)
            prune_folder(file.parent)


if __name__ == "__main__":
    run_child(main)
