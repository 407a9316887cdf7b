"""Where is the public conformance data? At ../shared/conformance, or where TARRAFA_CONFORMANCE points; else we skip."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

CONFORMANCE_DIR = Path(os.environ.get("TARRAFA_CONFORMANCE") or Path(__file__).parents[2] / "shared" / "conformance")


def cases(name: str) -> list[Any]:
    """The cases of one JSON file; none where the data is absent (then `need` says why nothing ran)."""
    path = CONFORMANCE_DIR / name
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def requires_data(name: str) -> Any:
    """Mark a test that is nothing without this file."""
    reason = f"{CONFORMANCE_DIR / name} is absent: set TARRAFA_CONFORMANCE to where the conformance data is"
    return pytest.mark.skipif(not (CONFORMANCE_DIR / name).exists(), reason=reason)
