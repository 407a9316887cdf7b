import math
from pathlib import Path

import msgspec
import pytest

from tarrafa.errors import ConfigError
from tarrafa.revisit.change_rate import DAY_S
from tarrafa.simulate.change_process import ChangeProcess
from tarrafa.simulate.policy_comparison import (
    HEADINGS,
    ScenarioReport,
    build_web,
    compare_processes,
    comparison_table,
    markdown_table,
    report_rows,
    run_scenario,
)
from tarrafa.simulate.scenario import read_scenario

EXAMPLE = Path(__file__).parents[2] / "docs" / "simulate" / "example.toml"
SMALL = """
[run]
policy = ["uniform", "index"]
days = 2
budget = 200
seed = 3

[[crawlers]]
count = 2
speed = "1 MB"

[[servers]]
name = "a"
count = 2
pause = "10s"

[[servers]]
name = "b"
pause = "1 min"
pause_from = "start"
speed = "100 KB"
dates = true

[[documents]]
server = "a"
count = 5
rate = 2.0

[[documents]]
server = "b"
interval = "12h"
size = "20 KB"
importance = 3
process = "regular"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "web.toml"
    path.write_text(text)
    return path


def test_groups_become_crawlers_servers_and_documents(tmp_path):
    web = build_web(read_scenario(write(tmp_path, SMALL)))
    assert [crawler.speed for crawler in web.crawlers] == [1e6, 1e6]
    assert [(server.pause_s, server.pause_from, server.dated) for server in web.servers] == [
        (10, "end", False),
        (10, "end", False),
        (60, "start", True),
    ]
    assert web.servers[0].speed == math.inf
    assert [document.server for document in web.documents] == [0, 1, 0, 1, 0, 2]
    last = web.documents[-1]
    assert last.rate == pytest.approx(2 / DAY_S)
    assert (last.size, last.weight, last.process) == (20_000, 3, ChangeProcess.REGULAR)
    assert web.until_s == 2 * DAY_S


def test_a_report_has_a_row_for_each_policy_and_goes_through_json(tmp_path):
    report = run_scenario(read_scenario(write(tmp_path, SMALL)))
    assert {run.policy for run in report.runs} == {"uniform", "index"}
    assert all(run.violations == 0 and run.visits > 100 for run in report.runs)
    assert msgspec.json.decode(msgspec.json.encode(report), type=ScenarioReport) == report
    lines = report_rows(report)
    assert all(len(line) == len(HEADINGS) for line in lines)
    assert {"uniform", "index"} <= {line[0] for line in lines}
    assert [float(line[2]) for line in lines] == sorted(float(line[2]) for line in lines)
    assert markdown_table(HEADINGS, lines).count("\n") == len(lines) + 1


def test_a_scenario_gives_the_same_report_every_time(tmp_path):
    scenario = read_scenario(write(tmp_path, SMALL.replace('"regular"', '"mixture"')))
    assert run_scenario(scenario) == run_scenario(scenario)


def test_documents_may_stand_in_a_file_of_their_own(tmp_path):
    (tmp_path / "docs.csv").write_text(
        "server,rate_per_day,size,importance,process\na,1.5,10 KB,1,poisson\nb,0,500,2.5,\na,3,1,0,pareto\n"
    )
    listed = 'documents_file = "docs.csv"\n' + SMALL[: SMALL.index("[[documents]]")]
    web = build_web(read_scenario(write(tmp_path, listed)))
    assert [(one.server, one.size, one.weight, one.process.value) for one in web.documents] == [
        (0, 10_000, 1, "poisson"),
        (2, 500, 2.5, "poisson"),
        (1, 1, 0, "pareto"),
    ]
    assert web.documents[0].rate == pytest.approx(1.5 / DAY_S)
    both = build_web(read_scenario(write(tmp_path, 'documents_file = "docs.csv"\n' + SMALL)))
    assert len(both.documents) == 9


@pytest.mark.parametrize(
    ("was", "becomes", "complaint"),
    [
        ("[run]", "[rum]", "unknown key 'rum' (allowed: run, servers, crawlers, documents, documents_file)"),
        ("days = 2", "day = 2", "[run] unknown key 'day' (allowed: days, policy, budget, seed, learn, start, share, "),
        ("days = 2", "", "[run] days is missing"),
        ("days = 2", "days = -1", "[run] days must be 0.001 to 3,650, got -1.0"),
        ("days = 2", 'days = "two"', "[run] days: expected a number, got str"),
        ("days = 2", "days = 2\nlearn = 1", "[run] learn: expected bool, got int"),
        ("days = 2", 'days = 2\nstatistic = "6 moons"', "[run] statistic: not a duration: '6 moons' (write for"),
        ("days = 2", 'days = 2\nwarmup = "2 days"', "[run] warmup must be shorter than the 2 days of the run"),
        ("days = 2", "days = 2\nshare = 2", "[run] share must be 0 to 1, got 2.0"),
        ("seed = 3", "seed = 3.5", "[run] seed: expected a whole number, got float"),
        ("budget = 200", "budget = 0", "[run] budget must be 0.001 to 1e+12, got 0.0"),
        ('["uniform", "index"]', '"best"', "[run] policy: invalid enum value 'best' (allowed: index, psp, mp2, "),
        ('["uniform", "index"]', '["index", "best"]', "[run] policy: invalid enum value 'best' (allowed: index, psp, "),
        ('["uniform", "index"]', "[]", "[run] policy must name at least one"),
        ("count = 2\nspeed", "count = 0\nspeed", "[[crawlers]] count, in all, must be 1 to 100,000, got 0"),
        ('speed = "1 MB"', "speed = 0", "[[crawlers]] number 1: speed must be above 0 bytes a second"),
        ('speed = "1 MB"', 'speed = "1 mile"', "[[crawlers]] number 1: speed: not a size: '1 mile' (write for example"),
        ('pause = "1 min"', "", "[[servers]] number 2: pause is missing"),
        ('pause = "1 min"', "pause = -1", "[[servers]] number 2: pause: expected 0 or more, got -1"),
        ('"start"', '"middle"', "[[servers]] number 2: pause_from: invalid enum value 'middle' (allowed: start, end)"),
        ('name = "b"', 'name = "a"', "[[servers]] name: two have the same one"),
        ("dates = true", "date = true", "[[servers]] number 2: unknown key 'date' (allowed: name, pause, count, "),
        ('server = "b"', 'server = "c"', "[[documents]] number 2: server: there is no 'c' (allowed: a, b)"),
        ("rate = 2.0", "", "[[documents]] number 1: give either rate (changes a day) or interval"),
        ("rate = 2.0", 'rate = 2.0\ninterval = "1h"', "[[documents]] number 1: give either rate (changes a day) or"),
        ("rate = 2.0", "rate = -2.0", "[[documents]] number 1: rate must be 0 to 1e+12, got -2.0"),
        ("count = 5", "count = 5_000_000", "[[documents]] number 1: count must be 1 to 1e+06, got 5000000"),
        ('"regular"', '"chaos"', "[[documents]] number 2: process: invalid enum value 'chaos' (allowed: poisson, "),
        ("importance = 3", 'importance = "high"', "[[documents]] number 2: importance: expected a number, got str"),
        ("[[crawlers]]", "[crawlers]", "[crawlers]: expected a list, got object (write [[crawlers]])"),
        ("[[servers]]", "[[servers", "not valid TOML: "),
        ("[[documents]]", "[[documents]]\n[[documents]]", "[[documents]] number 1: server is missing"),
    ],
)  # fmt: skip
def test_a_bad_scenario_is_refused_in_one_clear_sentence(tmp_path, was, becomes, complaint):
    assert was in SMALL
    path = write(tmp_path, SMALL.replace(was, becomes, 1))
    with pytest.raises(ConfigError) as caught:
        read_scenario(path)
    assert str(caught.value).startswith(f"{path}: {complaint}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", ":1: the columns must be server,rate_per_day,size,importance and perhaps process, got nothing"),
        ("server,rate\na,1\n", ":1: the columns must be server,rate_per_day,size,importance and perhaps process"),
        ("server,rate_per_day,size,importance\na,1,1\n", ":2: expected 4 columns"),
        ("server,rate_per_day,size,importance\na,1,1,1,1\n", ":2: expected 4 columns"),
        ("server,rate_per_day,size,importance\na,1,1,1\nz,1,1,1\n", ":3: server: there is no 'z' (allowed: a, b)"),
        ("server,rate_per_day,size,importance\na,often,1,1\n", ":2: rate_per_day: expected a number, got 'often'"),
        ("server,rate_per_day,size,importance\na,nan,1,1\n", ":2: rate_per_day must be 0 or more, got nan"),
        ("server,rate_per_day,size,importance\na,1,1,-1\n", ":2: importance must be 0 or more, got -1"),
        ("server,rate_per_day,size,importance\na,1,big,1\n", ":2: size: not a size: 'big' (write for example"),
        ("server,rate_per_day,size,importance,process\na,1,1,1,odd\n", ":2: process: unknown 'odd' (allowed: pois"),
        ('server,rate_per_day,size,importance\n"a,1,1,1\n', ":2: not valid CSV: "),
    ],
)  # fmt: skip
def test_a_bad_line_of_documents_is_refused_with_its_number(tmp_path, content, complaint):
    listed = tmp_path / "docs.csv"
    listed.write_text(content)
    with pytest.raises(ConfigError) as caught:
        read_scenario(write(tmp_path, 'documents_file = "docs.csv"\n' + SMALL[: SMALL.index("[[documents]]")]))
    assert str(caught.value).startswith(f"{listed}{complaint}")


def test_files_that_are_not_there_are_named(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere\.toml: no such file"):
        read_scenario(tmp_path / "nowhere.toml")
    with pytest.raises(ConfigError, match=r"nowhere\.csv: no such file"):
        read_scenario(write(tmp_path, 'documents_file = "nowhere.csv"\n' + SMALL))


def test_documents_that_matter_nothing_are_refused(tmp_path):
    silent = SMALL.replace("importance = 3", "importance = 0").replace("rate = 2.0", "rate = 2.0\nimportance = 0")
    with pytest.raises(ConfigError, match="importance must be above 0 for at least one document"):
        read_scenario(write(tmp_path, silent))


def test_the_example_of_the_documentation_is_a_scenario():
    scenario = read_scenario(EXAMPLE)
    assert set(scenario.run.policies) == {"index", "psp", "mp2", "m-wolf", "uniform", "proportional", "rateupdate"}
    web = build_web(scenario)
    assert {document.process for document in web.documents} == set(ChangeProcess)


def test_all_policies_can_be_compared_under_all_processes():
    cells = compare_processes(("uniform", "index"), documents=60, servers=4, days=2, warmup_days=0.5, budget=100)
    assert [(cell.policy, cell.process) for cell in cells[:2]] == [("uniform", "poisson"), ("index", "poisson")]
    assert len(cells) == 9
    assert (cells[-1].policy, cells[-1].process) == ("wp (bound)", "poisson")
    assert all(0 < cell.staleness < 1 for cell in cells)
    assert comparison_table(cells).splitlines()[0] == "| policy | poisson | pareto | regular | mixture | visits |"
