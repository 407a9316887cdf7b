"""`tarrafa import warc` as a user runs it: what it prints, and what can be found afterwards."""

from pathlib import Path

import pytest

from tests.archive.foreign_archives import DAY, WarcFile, page
from tests.journey.crawl_journey import run_json, tarrafa

EVENT = '<div vocab="http://schema.org/" typeof="Event"><span property="name">Carnaval</span></div>'


def write(folder: Path, name: str, *pages: tuple[str, str, int]) -> Path:
    made = WarcFile()
    for url, text, day in pages:
        made.add(url, page(text, "http://a.test/b") + EVENT.encode(), DAY.format(day))
    path = folder / name
    path.write_bytes(made.content)
    return path


def test_what_is_imported_is_found_and_older_versions_do_not_replace_it(tmp_path):
    data = tmp_path / "data"
    newer = write(
        tmp_path, "new.warc.gz", ("http://a.test/", "orçamento aprovado", 5), ("http://a.test/b", "escola", 6)
    )
    older = write(tmp_path, "old.warc.gz", ("http://a.test/", "orçamento recusado", 2))
    newer.write_bytes(newer.read_bytes() + b"\x1f\x8b\x08 damaged")
    done = tarrafa("import", "warc", newer, "--collection", "old", "--data", data)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "old: 2 captures imported from 1 file, 2 pages kept, 1 damaged\n"
    assert f"{newer}: damaged at " in done.stderr
    assert "paused: nothing is fetched" in done.stderr
    found = run_json("search", "orçamento", "--data", data)
    assert [(hit["url"], hit["in_links"]) for hit in found["hits"]] == [("http://a.test/", 0)]
    assert [one["url"] for one in run_json("links", "http://a.test/b", "--data", data)["in"]] == ["http://a.test/"]
    assert run_json("entities", "--class", "schema:Event", "--data", data)

    done = tarrafa("import", "warc", older, "--collection", "old", "--data", data)
    assert done.stdout == "old: 1 capture imported from 1 file, 1 page kept, 1 older version, 0 damaged\n"
    assert run_json("search", "aprovado", "--data", data)["total"] == 1
    assert run_json("search", "recusado", "--data", data)["total"] == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("warc", "x.warc"), "--collection NAME is missing"),
        (("warc", "x.warc", "--collection", "c"), "no such file"),
        (("warc", "x.warc", "--collection", "c", "--frontier", "tcp://localhost:1"), "--frontier"),
        (("frontier", "x", "--all"), "neither --collection nor --all"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(tmp_path, arguments, complaint):
    done = tarrafa("import", *arguments, "--data", tmp_path / "data")
    assert done.returncode == 2
    assert complaint in done.stderr
    assert not (tmp_path / "data" / "archive").exists() or not list((tmp_path / "data" / "archive").iterdir())
