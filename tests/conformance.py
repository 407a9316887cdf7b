"""Where is the public conformance data? At ../shared/conformance, or where TARRAFA_CONFORMANCE points; else we skip."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

PLACE = Path(os.environ.get("TARRAFA_CONFORMANCE") or Path(__file__).parents[2] / "shared" / "conformance")


def cases(name: str) -> list[Any]:
    """The cases of one JSON file; none where the data is absent (then `need` says why nothing ran)."""
    path = PLACE / name
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def need(name: str) -> Any:
    """Mark a test that is nothing without this file."""
    reason = f"{PLACE / name} is absent: set TARRAFA_CONFORMANCE to where the conformance data is"
    return pytest.mark.skipif(not (PLACE / name).exists(), reason=reason)
