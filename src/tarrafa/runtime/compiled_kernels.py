"""Loads compiled kernels: inner loops that numba has compiled once into a file, which any process maps.

Kernels are plain functions in the part of Python that numba knows; `KERNELS` of their module says which of them are
called from outside, and with which types. Each kernel has a Python way, with the same result, at its caller.

Promises: no process waits for a compiler or imports one. A process that uses kernels often, and finds no compiled ones,
starts `kernel_compiler` in a child process at low priority and uses the Python way until the file is there. A
folder that cannot be written is no error: the next one is tried, and without any the Python way stays. The file is
named by the kernels' source, numba's version and the architecture, is checked before use, and is only used in folders
that nobody else can write to. Loading takes a millisecond and some 30 KB, which all processes share.
Knows nothing of what kernels compute. Known weakness: kernels have no bounds checks; their tests run them with bounds
checks, too.
"""

import ctypes
import importlib.util
import mmap
import os
import platform
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from xxhash import xxh3_128_digest, xxh3_128_hexdigest

from tarrafa.clock import boottime
from tarrafa.errors import DataError
from tarrafa.runtime.child_process import EXIT_RETRY, child_command
from tarrafa.runtime.data_dir import try_lock

USES_BEFORE_COMPILATION = 200  # a command that needs a kernel less often is over before it would be compiled
LOOK_EVERY_S = 1.0  # while it is being compiled, maybe by another process
REQUIRED_PAUSE_S = 0.1
FILE_BYTES_MAX = 16 << 20
FILES_KEPT_MAX = 16  # in a folder, for all modules and versions
COMPILER = "tarrafa.runtime.kernel_compiler"
SUFFIX = ".kernels"
NUMBA_CACHE_VARIABLE = "NUMBA_CACHE_DIR"

_CODE_START = mmap.PAGESIZE
_DIGEST_BYTES, _LENGTH_BYTES = 16, 4
_TYPES: dict[str, type[Any]] = {"int64": ctypes.c_int64, "float64": ctypes.c_double}

CompiledFunction = Callable[..., int]


class KernelsUnavailable(Exception):
    """Kernels cannot be compiled or loaded here."""


class Kernel(NamedTuple):
    """A function of a kernel module, which returns an `int64`, and the types of its arguments: `int64`, `float64`, or
    for instance `uint8*`, the address of an array.
    """

    function: str
    arguments: str

    def compiled(self, code: mmap.mmap, place: int) -> CompiledFunction:
        """The compiled function at a place of the code. It keeps the GIL: a call is over before another thread could
        take it.
        """
        types = [ctypes.c_void_p if word.endswith("*") else _TYPES[word] for word in self.arguments.split()]
        found = ctypes.PYFUNCTYPE(ctypes.c_int64, *types)(_address_of(code) + place)
        vars(found)["code"] = code  # stays mapped as long as the function exists
        return found


class CompiledKernels:
    """The kernels of one module, for this process."""

    may_compile = True  # in all modules; not in a sandbox

    def __init__(self, module: str, kernels: Mapping[str, Kernel]) -> None:
        self._module, self._kernels = module, kernels
        self._found: dict[str, CompiledFunction] | None = None
        self._uses = 0
        self._look_at = 0.0  # boot time
        self.compiler: subprocess.Popen[bytes] | None = None
        self.is_enabled = True  # not where they cannot be compiled

    def get(self) -> dict[str, CompiledFunction] | None:
        """The compiled functions; None: use the Python way."""
        if self._found is None and self.is_enabled:
            self._uses += 1
            if self._uses == 1 or (self._uses >= USES_BEFORE_COMPILATION and boottime() >= self._look_at):
                self._look()
        return self._found if self.is_enabled else None

    def _look(self) -> None:
        """Load the kernels, or have them compiled."""
        self._look_at = boottime() + LOOK_EVERY_S
        folders, name = cache_folders(), self._file_name()
        if any(self.load(folder / name) for folder in folders):
            self.compiler = None
        elif self.compiler is not None and self.compiler.poll() not in (None, EXIT_RETRY):
            self.is_enabled = False  # they cannot be compiled or loaded here
        elif self._uses >= USES_BEFORE_COMPILATION and (self.compiler is None or self.compiler.poll() is not None):
            self.is_enabled = bool(folders) and self.may_compile
            if self.is_enabled:
                self._compile(folders[0] / name)

    def require(self) -> None:
        """Load the kernels, compiled in the foreground if need be: for a process that nobody waits for."""
        folders, name = cache_folders(), self._file_name()
        compiled = EXIT_RETRY
        while not any(self.load(folder / name) for folder in folders):
            if not folders or compiled != EXIT_RETRY:
                raise KernelsUnavailable(f"{self._module} cannot be compiled here")
            command = child_command(COMPILER, kernels=self._module, path=folders[0] / name)
            compiled = subprocess.run(command, check=False).returncode
            if compiled == EXIT_RETRY:
                time.sleep(REQUIRED_PAUSE_S)

    def _compile(self, path: Path) -> None:
        """Start the compiler, unless another process has."""
        with suppress(OSError, DataError):
            lock = try_lock(lock_path(path, self._module))
            if lock is not None:
                lock.close()
                command = child_command(COMPILER, kernels=self._module, path=path)
                quiet = subprocess.DEVNULL
                self.compiler = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)

    def _file_name(self) -> str:
        """Code for another source, compiler, layout of the file or architecture has another name."""
        from importlib.metadata import version  # 20 ms that a worker's first request does not wait for

        parts = [platform.machine(), version("numba")]
        for module in (self._module, COMPILER, __name__):
            found = importlib.util.find_spec(module)
            if found is not None and found.origin is not None:
                parts.append(Path(found.origin).read_text())
        return f"{self._module}-{xxh3_128_hexdigest(chr(0).join(parts).encode())}{SUFFIX}"

    def load(self, path: Path) -> bool:
        """Map a file; whether that succeeded. A damaged file is removed."""
        with suppress(OSError):
            with path.open("rb") as file:
                content = file.read(FILE_BYTES_MAX)
                if not _is_whole(content):
                    path.unlink()
                    return False
                mapped = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
            places = _places(content)
            self._found = {name: kernel.compiled(mapped, places[name]) for name, kernel in self._kernels.items()}
            return True
        return False


def _address_of(mapped: mmap.mmap) -> int:
    import numpy as np  # which commands that need no kernels can do without

    return int(np.frombuffer(mapped, np.uint8).ctypes.data)


def pack_code(code: bytes, offsets: dict[str, int]) -> bytes:
    """A file of kernels: digest, length of the list of places, that list, and from the second page on the code."""
    packed = msgspec.msgpack.encode({name: _CODE_START + offset for name, offset in offsets.items()})
    content = (len(packed).to_bytes(_LENGTH_BYTES, "big") + packed).ljust(_CODE_START - _DIGEST_BYTES, b"\x00") + code
    assert len(content) == _CODE_START - _DIGEST_BYTES + len(code), "the list does not fit a page"
    return xxh3_128_digest(content) + content


def _is_whole(content: bytes) -> bool:
    return len(content) > _CODE_START and xxh3_128_digest(content[_DIGEST_BYTES:]) == content[:_DIGEST_BYTES]


def _places(content: bytes) -> dict[str, int]:
    """Where each kernel begins in its file."""
    start = _DIGEST_BYTES + _LENGTH_BYTES
    length = int.from_bytes(content[_DIGEST_BYTES:start], "big")
    return msgspec.msgpack.decode(content[start : start + length], type=dict[str, int])


def cache_folders() -> list[Path]:
    """The folders for compiled kernels that this user can write to, and nobody else: in the user's cache folder, or in
    the folder for temporary files.
    """
    folders = []
    with suppress(OSError):  # no such folder, or none for us: in a sandbox
        folders.append(Path(tempfile.gettempdir(), f"tarrafa-{os.geteuid()}"))
    with suppress(RuntimeError):  # no home
        folders.insert(0, Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser(), "tarrafa", "kernels"))
    return [folder for folder in folders if _is_usable(folder)]


def _is_usable(folder: Path) -> bool:
    """Whether code in this folder can be written by us, by nobody else, and be executed."""
    with suppress(OSError):
        folder.mkdir(0o700, parents=True, exist_ok=True)
        found = folder.lstat()
        is_private = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
        return is_private and os.access(folder, os.W_OK) and not os.statvfs(folder).f_flag & os.ST_NOEXEC
    return False


def lock_path(path: Path, module: str) -> Path:
    """The lock of the process that compiles a module's file."""
    return path.with_name(f"{module}.lock")


def use_own_numba_cache() -> None:
    """For the modules that numba compiles in the process that uses them (planner, simulator): where their folders
    cannot be written, numba has our cache folder instead of an error. To be called before they are imported.
    """
    if not _is_installation_writable() and (folders := cache_folders()):
        os.environ.setdefault(NUMBA_CACHE_VARIABLE, str(folders[0]))


def has_numba_cache() -> bool:
    """Whether numba has a folder for its cache. Without one, `njit(cache=True)` would be an error."""
    return _is_installation_writable() or NUMBA_CACHE_VARIABLE in os.environ


def _is_installation_writable() -> bool:
    return os.access(Path(__file__).parents[1], os.W_OK)


def prune_folder(folder: Path) -> None:
    """Remove the oldest files beyond the number that is kept."""
    files = sorted(folder.glob(f"*{SUFFIX}"), key=lambda path: path.stat().st_mtime)
    for path in files[:-FILES_KEPT_MAX]:
        path.unlink(missing_ok=True)
