"""Kernels are compiled once, by a child process, and nobody waits for it."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tarrafa.runtime import compiled_kernels
from tarrafa.runtime.compiled_kernels import (
    FILES_KEPT_MAX,
    SUFFIX,
    USES_BEFORE_COMPILATION,
    CompiledKernels,
    cache_folders,
    has_numba_cache,
    lock_path,
    prune_folder,
    use_own_numba_cache,
)
from tarrafa.runtime.data_dir import try_lock
from tarrafa.runtime.kernel_compiler import UnsupportedCode, compile_module
from tests.runtime import foreign_kernels, sample_kernels

ROOT = str(Path(__file__).parents[2])


@pytest.fixture(autouse=True)
def caches(monkeypatch, tmp_path):
    """Empty cache folders of our own, and no pause between two looks into them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr(compiled_kernels, "LOOK_EVERY_S", 0.0)
    monkeypatch.setenv("PYTHONPATH", ROOT)
    (tmp_path / "tmp").mkdir()


def sample() -> CompiledKernels:
    return CompiledKernels(sample_kernels.__name__, sample_kernels.KERNELS)


def use_often(kernels: CompiledKernels) -> None:
    for _ in range(USES_BEFORE_COMPILATION):
        kernels.get()


def wait_for_compiler(kernels: CompiledKernels) -> None:
    assert kernels.compiler is not None
    kernels.compiler.wait()


def test_kernels_are_compiled_by_a_child_process_while_the_python_way_is_used():
    kernels = sample()
    use_often(kernels)
    assert kernels.get() is None
    wait_for_compiler(kernels)
    compiled = kernels.get()
    assert compiled is not None
    assert compiled["total_8"](b"\x01\x02\xff", 3) == 2 * (1 + 2 + 255)
    assert compiled["total_32"](b"\x01\x00\x01\x00", 1) == 2 * 65_537
    assert [compiled["choose"](number) for number in range(12)] == list(map(sample_kernels.choose, range(12)))
    assert sample().get() is not None, "the next process loads them at its first use"


def test_a_function_outlives_the_object_that_loaded_it():
    kernels = sample()
    kernels.require()
    functions = kernels.get()
    del kernels
    assert functions is not None and functions["total_8"](b"\x03", 1) == 6


def test_a_process_that_needs_kernels_rarely_starts_no_compiler():
    kernels = sample()
    for _ in range(USES_BEFORE_COMPILATION - 1):
        assert kernels.get() is None
    assert kernels.compiler is None


def test_one_process_compiles_for_all():
    kernels, (folder, *_) = sample(), cache_folders()
    lock = try_lock(lock_path(folder / SUFFIX, sample_kernels.__name__))
    assert lock is not None
    with lock:
        use_often(kernels)
        assert kernels.get() is None and kernels.compiler is None
    use_often(kernels)
    assert kernels.compiler is not None
    wait_for_compiler(kernels)


def test_a_sandbox_starts_no_compiler(monkeypatch):
    monkeypatch.setattr(CompiledKernels, "may_compile", False)
    kernels = sample()
    use_often(kernels)
    assert kernels.get() is None and kernels.compiler is None


def test_without_a_cache_folder_the_next_one_is_used_and_without_any_the_python_way(tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert cache_folders() == [tmp_path / "tmp" / f"tarrafa-{os.geteuid()}"]
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "cache"))
    assert cache_folders() == []
    kernels = sample()
    use_often(kernels)
    assert kernels.get() is None and kernels.compiler is None and not kernels.is_enabled


def test_a_folder_that_others_can_write_to_is_not_used(tmp_path):
    assert tmp_path / "cache" / "tarrafa" / "kernels" in cache_folders()
    (tmp_path / "cache" / "tarrafa" / "kernels").chmod(0o777)
    assert tmp_path / "cache" / "tarrafa" / "kernels" not in cache_folders()


def test_a_link_to_a_folder_is_not_used(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "cache" / "tarrafa").mkdir(parents=True)
    (tmp_path / "cache" / "tarrafa" / "kernels").symlink_to(tmp_path / "elsewhere")
    assert tmp_path / "cache" / "tarrafa" / "kernels" not in cache_folders()


def test_a_damaged_file_is_removed_and_compiled_again(tmp_path):
    sample().require()
    (path,) = (tmp_path / "cache" / "tarrafa" / "kernels").glob(f"*{SUFFIX}")
    whole = path.read_bytes()
    for damaged in (b"", whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1])):
        path.write_bytes(damaged)
        assert sample().get() is None and not path.exists()
    sample().require()
    assert path.read_bytes()


def test_code_that_needs_a_library_is_refused():
    with pytest.raises(UnsupportedCode):
        compile_module(foreign_kernels.__name__)
    kernels = CompiledKernels(foreign_kernels.__name__, foreign_kernels.KERNELS)
    use_often(kernels)
    wait_for_compiler(kernels)
    assert kernels.get() is None and not kernels.is_enabled


@pytest.mark.parametrize("writable", [True, False])
def test_numba_has_a_cache_where_the_installation_cannot_be_written(monkeypatch, writable):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    (folder, *_) = cache_folders()
    monkeypatch.setattr(compiled_kernels, "__file__", str(folder / "tarrafa" / "runtime" / "compiled_kernels.py"))
    if writable:
        (folder / "tarrafa").mkdir()
    use_own_numba_cache()
    assert os.environ.get("NUMBA_CACHE_DIR") == (None if writable else str(folder))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)


def test_without_any_folder_numba_compiles_without_a_cache(tmp_path, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    (tmp_path / "cache").write_text("a file where the folder should be")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "cache"))
    monkeypatch.setattr(compiled_kernels, "__file__", str(tmp_path / "cache" / "tarrafa" / "runtime" / "a.py"))
    use_own_numba_cache()
    assert "NUMBA_CACHE_DIR" not in os.environ and not has_numba_cache()


def test_old_files_are_removed(tmp_path):
    for number in range(FILES_KEPT_MAX + 3):
        path = tmp_path / f"{number}{SUFFIX}"
        path.touch()
        os.utime(path, (number, number))
    prune_folder(tmp_path)
    assert {path.stem for path in tmp_path.glob(f"*{SUFFIX}")} == set(map(str, range(3, FILES_KEPT_MAX + 3)))


@pytest.mark.parametrize("module", ["tarrafa.crawl.worker.worker", "tarrafa.index.follower", "tarrafa.cli.app"])
def test_no_process_imports_a_compiler(module):
    code = f"import sys, {module}; print({{'numba', 'llvmlite'}} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-Pc", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("module", "late"),
    [
        ("tarrafa.crawl.worker.worker", {"numpy", "turbohtml", "importlib.metadata"}),
        ("tarrafa.cli.crawl", {"rich", "numpy", "importlib.metadata"}),
        ("tarrafa.frontier.rpc.frontier_server", {"numpy", "turbohtml", "importlib.metadata"}),
    ],
)
def test_the_first_request_of_a_crawl_does_not_wait_for_code_that_it_does_not_need(module, late):
    code = f"import sys, {module}; print(sorted({late} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-Pc", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
