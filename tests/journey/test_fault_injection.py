"""The small version of `benchmarks.fault_injection`: machines burn, and nothing is lost or wrong at rest."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.contract.postgres_process import WHY_NOT, programs
from tests.object_store_process import WHY_NOT as WHY_NO_STORE
from tests.object_store_process import program
from tests.patroni_process import WHY_NOT as WHY_NO_PATRONI
from tests.patroni_process import is_installed

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(programs() is None, reason=WHY_NOT),
    pytest.mark.skipif(program() is None, reason=WHY_NO_STORE),
    pytest.mark.skipif(not is_installed(), reason=WHY_NO_PATRONI),
    pytest.mark.skipif(os.geteuid() != 0 or shutil.which("ip") is None, reason="needs root and ip for namespaces"),
]


@pytest.mark.parametrize("body", ["--servers=1", "--servers=2", "--one-machine"])
def test_a_crawl_under_faults_passes_all_assertions_at_rest(body):
    small = ["--minutes", "1.5", "--hosts", "100", "--pages", "500", "--seed", "3"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.fault_injection", *small, body], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-3_000:]
    assert "**NO**" not in done.stdout
