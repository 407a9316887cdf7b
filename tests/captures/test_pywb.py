"""pywb beside us, over the same files: the same CDX answers, and captures replayed byte for byte."""

import itertools
import json
import urllib.parse
import urllib.request
from collections.abc import Iterator

import pytest

from tarrafa.captures import follower
from tarrafa.captures.cdx_lines import cdx_lines
from tarrafa.captures.cdx_params import parse_cdx_query
from tarrafa.captures.reader import CapturesReader, KeyRange
from tarrafa.captures.timestamps import timestamp_of
from tarrafa.runtime.data_dir import DataDirectory
from tests.captures.archive_tools import pywb_running
from tests.captures.archived_site import SHY, SiteArchive, new_archive, write_site

pytestmark = pytest.mark.long  # some ten seconds, and the first time a minute to install pywb
URLS = [
    "http://www.site.test/page.html", "https://site.test/PAGE.html/", "http://site.test/", "http://site.test:8080/",
    "http://sub.site.test/dir/", "http://other.test/dir/dir/p3.html", "http://site.test/encoded/", "http://test/",
    "site.test/p0.html?A=1&b=2", "http://nowhere.test/",
]  # fmt: skip
PARAMETERS = [
    "", "output=json", "output=cdxj&fl=url,digest", "output=text&fl=timestamp,url,status", "output=json&fl=mime,none",
    "from=2026", "from=20261001&to=2026", "to=202611", "from=20261001120000&to=20270301", "limit=3", "limit=1",
    "sort=reverse", "sort=reverse&limit=2", "sort=reverse&limit=1", "reverse=true&from=202610", "closest=20261101",
    "closest=20261101000000&limit=3", "closest=2026&limit=1", "closest=19990101&limit=2", "closest=20991231&limit=5",
    "filter=status:200", "filter==status:301", "filter=!status:200", "filter=~status:[23]..", "filter=!~mime:text/.*",
    "filter=mime:html&filter=!=status:301", "filter=~url:.*dir/.*html", "filter=digest:sha1", "filter=mimetype:revisit",
    "filter=!mime:warc/revisit&closest=20261101&limit=2", "collapseTime=6", "collapseTime=4&sort=reverse",
    "resolveRevisits=true", "resolveRevisits=1&output=json&fl=url,mime,status,orig.offset,orig.filename",
    "resolveRevisits=true&filter==mime:text/html&limit=4", "resolveRevisits=true&from=202611&closest=20261201&limit=2",
]  # fmt: skip
MATCH_TYPES = ["", "matchType=prefix", "matchType=host", "matchType=domain"]
ADDED_BY_PYWB = ("source", "source-coll")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> tuple[DataDirectory, SiteArchive]:
    data = new_archive(tmp_path_factory.mktemp("pywb") / "data")
    site = write_site(data)
    site.close()
    follower.catch_up(data)
    return data, site


@pytest.fixture(scope="module")
def pywb(archive: tuple[DataDirectory, SiteArchive], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data, _ = archive
    index = data.root / "export.cdxj"
    captures = CapturesReader(data).scan(KeyRange(), rows_max=None)
    index.write_text("".join(f"{one.cdxj()}\n" for one in captures))
    with pywb_running(tmp_path_factory.mktemp("served") / "pywb", index, data.archive) as base:
        yield base


def get(url: str, **headers: str) -> bytes:
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=30) as response:
        content: bytes = response.read()
    return content


def without_additions(line: str) -> object:
    """A line without what only pywb says."""
    key, brace, rest = line.partition("{")
    if not brace:
        return line
    fields = json.loads(brace + rest)
    return key, [(name, value) for name, value in fields.items() if name not in ADDED_BY_PYWB]


def test_cdx_answers_are_those_of_pywb(archive, pywb):
    reader = CapturesReader(archive[0])
    compared = with_lines = 0
    for number, (url, parameters) in enumerate(itertools.product(URLS, PARAMETERS)):
        query = "&".join(
            filter(None, [f"allowFuzzy=0&url={urllib.parse.quote(url)}", MATCH_TYPES[number % 4], parameters])
        )
        theirs = get(f"{pywb}/cdx?{query}").decode().splitlines()
        ours = list(cdx_lines(reader, parse_cdx_query(urllib.parse.parse_qsl(query)), with_files=True))
        assert (
            list(map(without_additions, ours)) == list(map(without_additions, theirs))
            or [line.rstrip() for line in ours] == theirs
        ), query
        compared, with_lines = compared + 1, with_lines + bool(theirs)
    assert compared >= 200 and with_lines >= 150


def replayed(pywb: str, url: str, at: float) -> bytes:
    return get(f"{pywb}/{timestamp_of(at)}id_/{url}", **{"Accept-Encoding": "identity"})


def test_captures_are_replayed_byte_for_byte(archive, pywb):
    """All but zstd, which pywb cannot decode: it is not offered to servers unless a collection says so."""
    _, site = archive
    seen: dict[tuple[str, str], int] = {}
    for url, at in site.served:
        key = (url, timestamp_of(at))
        seen[key] = seen.get(key, 0) + 1
    compared = 0
    for (url, at), body in site.served.items():
        skipped = "zstd" in url or url == SHY or "moved" in url or seen[url, timestamp_of(at)] > 1
        if body and not skipped:
            assert replayed(pywb, url, at) == body, (url, at)
            compared += 1
    assert compared >= 20


def test_a_304_is_replayed_as_the_page_that_it_confirms(archive, pywb):
    _, site = archive
    confirmed = [(url, at) for (url, at), body in site.served.items() if not body and url.endswith("/page.html")]
    assert len(confirmed) == 1
    url, at = confirmed[0]
    assert replayed(pywb, url, at) == b"<p>two</p>\n<p>same</p>"
