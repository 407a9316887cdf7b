"""The law of imports: a room knows only the rooms below it, and the pure ones touch nothing."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "tarrafa"

# From the top of the house to its foundations; rooms on one line do not know each other.
FLOORS = [
    {"cli"},
    {"server"},
    {"report"},
    {"coordinator"},
    {"simulate"},
    {"crawl"},
    {"search"},
    {"triples"},
    {"index"},
    {"graph"},
    {"frontier"},
    {"fetch"},
    {"archive"},
    {"takedown"},
    {"revisit"},
    {"parse"},
    {"testweb"},
    {"credentials"},
    {"runtime", "config"},
    {"model", "errors", "clock"},
    {"i18n"},
]
LEVEL = {room: len(FLOORS) - number for number, floor in enumerate(FLOORS) for room in floor}
TOUCHES_THE_WORLD = {
    "asyncio", "os", "pathlib", "socket", "time", "datetime", "subprocess", "threading", "io", "shutil", "tempfile",
    "pycurl", "aiodns", "apsw", "uvloop", "urllib.request", "random", "tarrafa.clock", "tarrafa.runtime.data_dir",
    "tarrafa.runtime.process",
}  # fmt: skip
PURE = ["parse", "revisit", "frontier/ordering"]


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def imports(path: Path) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def room_of(path: Path) -> str:
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_room_imports_only_rooms_below_it(path):
    room = room_of(path)
    if room == "__init__":
        return
    for name in imports(path):
        parts = name.split(".")
        if parts[0] != "tarrafa" or parts[1] not in LEVEL:
            continue
        if parts[1] != room:
            assert LEVEL[parts[1]] < LEVEL[room], f"{room} must not know {parts[1]} ({name})"


def test_processes_of_ours_are_started_in_one_way():
    assert [path for path in modules() if "sys.executable" in path.read_text()] == [SOURCE / "runtime" / "process.py"]


def test_every_room_has_its_floor():
    rooms = {room_of(path) for path in modules()} - {"__init__"}
    assert rooms <= set(LEVEL)


@pytest.mark.parametrize("room", PURE)
def test_pure_rooms_touch_neither_network_nor_disk_nor_clock(room):
    paths = sorted((SOURCE / room).rglob("*.py"))
    assert paths
    for path in paths:
        for name in imports(path):
            touched = [bad for bad in TOUCHES_THE_WORLD if name == bad or name.startswith(f"{bad}.")]
            assert not touched, f"{path.relative_to(SOURCE)} imports {name}"
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        assert not [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "open"], path


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_opens_with_what_it_is_for(path):
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_what_wants_the_machine_for_itself_is_where_make_test_looks_for_it():
    tests = Path(__file__).parent
    marked = [path for path in tests.rglob("test_*.py") if "@pytest.mark." + "alone" in path.read_text()]
    assert marked
    assert {path.parent for path in marked} == {tests / "journey"}
