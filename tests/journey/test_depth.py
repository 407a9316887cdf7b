"""A depth that falls after the page was fetched opens what it had cut: the way back from the graph to the frontier."""

import threading

from tests.journey.crawl_journey import run_json, tarrafa
from tests.journey.scripted_web import ScriptedResponse, links, scripted_web

# The detour root -> a -> b -> c is walked first; the short way root -> slow -> c shows up when c has been fetched.
LINKS = {
    "http://one.test/": ["http://one.test/a", "http://slow.test/"],
    "http://one.test/a": ["http://one.test/b"],
    "http://one.test/b": ["http://one.test/c"],
    "http://one.test/c": ["http://one.test/d"],
    "http://one.test/d": ["http://one.test/e"],
    "http://one.test/e": [],
    "http://slow.test/": ["http://one.test/c"],
}


def test_a_shorter_path_found_after_the_fetch_lowers_the_depth_and_reopens_what_it_cut(tmp_path):
    detour_walked = threading.Event()

    def answer(url: str, _: int) -> ScriptedResponse | None:
        if url == "http://slow.test/":
            detour_walked.wait(30)
        if url == "http://one.test/c":
            detour_walked.set()
        return links(*LINKS[url]) if url in LINKS else None

    with scripted_web(answer) as web:
        file = web.collection(tmp_path, ["http://one.test/"], scope="depth_max = 3")
        done = tarrafa("crawl", file, "--data", tmp_path / "data", "--quiet")
        assert done.returncode == 0, done.stderr
        assert sorted(web.urls()) == sorted(url for url in LINKS if url != "http://one.test/e")
        found = run_json("status", "--data", tmp_path / "data")["collections"][0]
        assert (found["state"], found["too_deep"]) == ("finished", 1)
