"""Runs the whole suite for `make test`: four processes side by side, then what failed once more alone.

A test that fails alone, too, fails the run. One that passes alone is printed under FLAKY at the end: a debt to pay.
Style and types are checked meanwhile.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BIN = Path(sys.executable).parent
TESTS_FAILED = 1  # of pytest's exit codes; others mean that it could not run as it should
# Tests of one file run in one process, because they share what is costly to set up; files in the order of conftest.py.
BY_FILE = ("-n", "4", "--dist", "loadfile", "--no-loadscope-reorder")
RETRIES_MAX = 40  # more failures are no bad luck


class Suite:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def pytest(self, name: str, *options: str) -> int:
        """Run a part of the suite. Temporary folders have short names, because paths of sockets must be short."""
        line = [str(BIN / "pytest"), f"--basetemp={self._folder / name}", "-o", f"cache_dir={self._cache}", *options]
        return subprocess.run(line).returncode

    @property
    def _cache(self) -> Path:
        return self._folder / "cache"

    def failed(self) -> set[str]:
        path = self._cache / "v" / "cache" / "lastfailed"
        return set(json.loads(path.read_text())) if path.exists() else set()

    def parallel(self) -> tuple[int, set[str]]:
        """The exit code, and the tests that failed beside others but passed alone."""
        code = self.pytest("t", "-m", "not long and not alone", *BY_FILE)
        failed = self.failed()
        if code != TESTS_FAILED or not 0 < len(failed) <= RETRIES_MAX:
            return code, set()
        print(f"\n{len(failed)} failed beside others: once more, alone", flush=True)
        code = self.pytest("r", "-m", "not long and not alone", "--last-failed", "--last-failed-no-failures=none")
        return code, failed - self.failed()


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="t.", dir="/tmp"))
    try:
        with (folder / "check").open("wb") as output:
            check = subprocess.Popen(["nice", sys.executable, __file__, "check"], stdout=output, stderr=output)
        suite = Suite(folder)
        code, flaky = suite.parallel()
        if code == 0:
            code = suite.pytest("a", "-m", "not long and alone", "tests/journey")
        code = check.wait() or code
        print((folder / "check").read_text(), end="")
        if flaky:
            print(f"\nFLAKY: {len(flaky)} failed beside others and passed alone", *sorted(flaky), sep="\n  ")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return code


def check_style_and_types() -> int:
    lines = (("ruff", "check", "."), ("ruff", "format", "--check", "."), ("mypy",))
    return max([subprocess.run([BIN / name, *options]).returncode for name, *options in lines])


if __name__ == "__main__":
    sys.exit(check_style_and_types() if sys.argv[1:] == ["check"] else main())
