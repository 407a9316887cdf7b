"""SURT keys: the rules one by one, and the same as the Python package `surt` for thousands of odd URLs."""

import json
import random

import pytest

from tarrafa.captures.surt import surt
from tests.captures.archive_tools import archive_tools, run_tool

KEYS = {
    "http://www.example.com/": "com,example)/",
    "https://www2.Example.com:443/A/B/": "com,example)/a/b",
    "http://example.com:8080/x": "com,example:8080)/x",
    "http://example.com/x?b=2&a=1&B": "com,example)/x?a=1&b&b=2",
    "http://example.com/a/./b/../c//d": "com,example)/a/c/d",
    "http://example.com/%7Euser/%C3%A7#top": "com,example)/~user/%c3%a7",
    "http://user:word@example.com/": "com,example)/",
    "http://127.0.0.1:81/": "1,0,0,127:81)/",
    "http://[::1]:81/": "::1:81)/",
    "http://são.br/": "br,xn--so-sia)/",
    "example.com": "com,example)/",
    "http://a.br/?jsessionid=" + "0" * 32: "br,a)/",
    "http://a.br/x?y=1&PHPSESSID=" + "0" * 32 + "&z=2": "br,a)/x?y=1&z=2",
    "http://a.br/(S(" + "a" * 24 + "))/p.aspx": "br,a)/p.aspx",
    "urn:tarrafa:collection:c": "urn:tarrafa:collection:c",
    "http://a.br:99999/": "http://a.br:99999/",
    "": "-",
}
PIECES = [
    "http://", "https://", "www.", "www2.", "a.br", "Ex..COM.", ":80", ":8080", ":", "/", "//", "/.", "/..", "/a",
    "/B%20c", "/%C3%A9", "é", "?", "&", "=", "x=1", "Y=2", "sid=" + "B2" * 16, "jsessionid=" + "a1" * 16,
    "/(" + "a" * 24 + ")/p.aspx", "#f", "%", "%25", "%2525", "%zz", " ", "\t", "10.0.0.1", "0177.1", "12345", "[::1]",
    "u:p@", "são.br", "ftp://", "dns:", "urn:", "cfid=1&cftoken=2", ";", "'", '"', "<", "{", "|", "\\", "^", "`", "~",
]  # fmt: skip


@pytest.mark.parametrize("url", KEYS)
def test_a_url_has_its_key(url):
    assert surt(url) == KEYS[url]


def test_keys_are_those_of_the_package_surt():
    rng = random.Random(7)
    urls = ["".join(rng.choice(PIECES) for _ in range(rng.randint(1, 9))) for _ in range(6_000)]
    urls += [f"http://{rng.choice(['www.a.br', 'b.a.br:8080', '127.0.0.1:90'])}{url}" for url in urls[:2_000]]
    code = (
        "import json, sys, surt\n"
        "for line in sys.stdin:\n"
        "    url = json.loads(line)\n"
        "    try: print(json.dumps(surt.surt(url)))\n"
        "    except Exception: print(json.dumps(url))\n"
    )
    lines = run_tool(archive_tools(), "python", "-W", "ignore", "-c", code, stdin="\n".join(map(json.dumps, urls)))
    theirs = [json.loads(line) for line in lines.splitlines()]
    assert len(theirs) == len(urls)
    assert [(url, surt(url), key) for url, key in zip(urls, theirs, strict=True) if surt(url) != key] == []
