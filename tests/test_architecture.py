"""The architecture: which room imports which, which rooms are pure, how modules and classes are named, and whether
ARCHITECTURE.md names them rightly."""

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
SOURCE = REPOSITORY / "src" / "tarrafa"

# From the top of the house to its foundations; rooms on one line do not know each other.
FLOORS = [
    {"cli"},
    {"server"},
    {"report"},
    {"coordinator"},
    {"simulate"},
    {"crawl"},
    {"export"},
    {"search"},
    {"triples"},
    {"index"},
    {"graph", "captures"},
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
    "tarrafa.runtime.child_process", "tarrafa.runtime.process_identity",
}  # fmt: skip
PURE = ["parse", "revisit", "frontier/ordering.py"]

# Nouns of the field that end in -ing. Any other module name in -ing is a gerund, which nobody looks for.
NOUNS_IN_ING = {"cloaking", "encoding", "monitoring", "ordering", "ranking", "sharding", "spelling"}
# A bare file name occurs in several folders only if it means the same in each.
SHARED_NAMES = {
    "app": "builds an application of commands or routes",
    "collections": "collections: their commands, and their rows in the frontier",
    "credentials": "credentials for crawled sites: their store, and its commands",
    "explain": "why a URL is in or out, and when it is visited: the reasons, and their command",
    "follower": "keeps a projection of the archive up to date",
    "messages": "the structs of a protocol",
    "params": "query parameters of a page",
    "reader": "reads a projection for search",
    "routes": "HTTP routes of a folder",
    "schema": "tables or fields of a store",
    "store": "the SQLite store of a room",
    "takedown": "takedowns of URLs, hosts and sites: their log, and its commands",
}
SHARED_NAMES_MAX = 25
FILES_PER_FOLDER_MAX = 20


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


def test_time_limits_do_not_swallow_a_cancellation():
    """`asyncio.wait_for` of Python 3.11 returns a result that comes in the moment of a cancellation, and goes on: a
    Ctrl-C was lost. `asyncio.timeout` does not."""
    assert [path for path in modules() if "asyncio.wait_for(" in path.read_text()] == []


def test_processes_of_ours_are_started_in_one_way():
    assert [path for path in modules() if "sys.executable" in path.read_text()] == [
        SOURCE / "runtime" / "child_process.py"
    ]


@pytest.mark.parametrize("path", [path for path in modules() if room_of(path) == "cli"], ids=lambda path: path.stem)
def test_commands_print_in_one_way_which_removes_control_characters(path):
    """Their own help and rich's output (a captured frame of `top`) are free of texts of others, or clean already."""
    allowed = ("typer.echo(context.get_help())", "sys.stdout.write(captured.get())")
    text = path.read_text()
    for one in allowed:
        text = text.replace(one, "")
    writes = re.findall(
        r"(?:stdout|stderr)\.write|typer\.echo|(?<![.\w])print\(|rich\.console import[^\n]*\bConsole\b", text
    )
    assert not writes or path == SOURCE / "cli" / "output.py"


def test_every_room_has_its_floor():
    rooms = {room_of(path) for path in modules()} - {"__init__"}
    assert rooms <= set(LEVEL)


@pytest.mark.parametrize("room", PURE)
def test_pure_rooms_touch_neither_network_nor_disk_nor_clock(room):
    paths = sorted((SOURCE / room).rglob("*.py")) or [SOURCE / room]
    for path in paths:
        for name in imports(path):
            touched = [bad for bad in TOUCHES_THE_WORLD if name == bad or name.startswith(f"{bad}.")]
            assert not touched, f"{path.relative_to(SOURCE)} imports {name}"
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        assert not [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "open"], path


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_opens_with_a_statement(path):
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring, "no docstring"
    first = docstring.split("\n\n")[0].split("\n")[0]
    assert "?" not in first, "a question"
    assert first[0].isupper() or first.startswith(("`", "robots.txt")), "not a sentence"
    assert first.rstrip().endswith((".", ":")) or "\n" in docstring.split("\n\n")[0], "not a sentence"


def named_modules() -> list[Path]:
    return [path for path in modules() if not path.stem.startswith("__")]


def test_no_module_is_named_by_a_gerund():
    stems = {path.stem.split("_")[-1] for path in named_modules()} | {path.parent.name for path in named_modules()}
    assert {stem for stem in stems if stem.endswith("ing")} - NOUNS_IN_ING == set()


def test_the_pair_of_folder_and_file_is_unique():
    pairs = Counter(path.parts[-2:] for path in named_modules())
    assert [pair for pair, count in pairs.items() if count > 1] == []


def test_a_bare_file_name_occurs_twice_only_if_it_means_the_same():
    names = Counter(path.stem for path in named_modules())
    assert {name for name, count in names.items() if count > 1} == set(SHARED_NAMES)
    assert len(SHARED_NAMES) <= SHARED_NAMES_MAX


def test_a_folder_has_one_subject_and_few_files():
    folders = Counter(str(path.parent.relative_to(SOURCE)) for path in modules())
    assert {name: count for name, count in folders.items() if count > FILES_PER_FOLDER_MAX} == {}


def test_a_class_name_means_one_thing():
    defined = defaultdict(list)
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                defined[node.name].append(str(path.relative_to(SOURCE)))
    assert {name: paths for name, paths in defined.items() if len(paths) > 1} == {}


def table_rows(heading: str) -> list[str]:
    """The last cells of the tables in a section of ARCHITECTURE.md, without their heads."""
    text = (REPOSITORY / "ARCHITECTURE.md").read_text()
    section = re.search(rf"^## {heading}\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    assert section
    lines = [line for line in section[1].splitlines() if line.startswith("| ")]
    return [line.rsplit(" | ", 1)[1].removesuffix(" |") for line in lines[1:]]


def wrong_names(row: str) -> list[str]:
    """Names of a row that its rule does not find: a name without a folder is in the folder of the name before it;
    `name()` and `Name` are defined in the module before them."""
    folder, defined, wrong = "", "", []
    for name in re.findall(r"`([^`]+)`", row):
        if re.fullmatch(r"[a-z_]+\(\)|[A-Z]\w*", name):
            bare = name.removesuffix("()")
            found = re.search(rf"^ *(?:async )?(?:def|class) {bare}\b|^{bare}(?:: .+)? = ", defined, re.MULTILINE)
            wrong += [] if found else [name]
            continue
        at_root = name.startswith(("docs/", "tests/"))
        folder = name.rpartition("/")[0] if "/" in name else folder
        place = (REPOSITORY if at_root else SOURCE / folder) / (name if at_root else name.rpartition("/")[2])
        module = place.with_name(place.name + ".py")
        wrong += [] if place.exists() or module.exists() else [name]
        defined = module.read_text() if module.exists() else ""
    return wrong


@pytest.mark.parametrize("row", table_rows("The path of a page"), ids=lambda row: row.split("`")[1])
def test_the_path_of_a_page_names_files_by_its_rule(row):
    assert wrong_names(row) == []


@pytest.mark.parametrize("row", table_rows("Work on the code"), ids=lambda row: row.split("`")[1])
def test_the_places_for_new_code_exist(row):
    assert wrong_names(row) == []


def test_the_rule_finds_wrong_names():
    assert wrong_names("`fetch/dns` (`resolve_nothing()`), `politeness`; `docs/nothing.md`, `model` (`NoStatus`)") == [
        "resolve_nothing()", "politeness", "docs/nothing.md", "model", "NoStatus",
    ]  # fmt: skip


def test_what_wants_the_machine_for_itself_is_where_make_test_looks_for_it():
    tests = Path(__file__).parent
    marked = [path for path in tests.rglob("test_*.py") if "@pytest.mark." + "alone" in path.read_text()]
    assert marked
    assert {path.parent for path in marked} == {tests / "journey"}
