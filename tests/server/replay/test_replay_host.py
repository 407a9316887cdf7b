"""The replay host name over HTTP: what it serves, to whom, and under which policy; and where there is no replay."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tarrafa.errors import ConfigError, DataError
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.server.rate_limit import RateLimit
from tarrafa.server.replay import wabac_package
from tarrafa.server.replay.replay_site import ReplaySite
from tarrafa.server.replay.wabac_package import FILE_NAME, VERSION, install_package, load_package
from tarrafa.takedown import parse_target, record_action
from tests.captures.archived_site import ENCODED, FIRST_AT, MOVED, PAGE, SHY, new_archive
from tests.server.conftest import RunningSite, links
from tests.server.replay.browser_site import AT, DEMO, DOWN, write_demo

REPLAY, MAIN = "replay.tarrafa.localhost:8080", "tarrafa.localhost:8080"
SITE = ReplaySite.parse(f"http://{REPLAY}")
FROM_WORKER = {"Host": REPLAY, "Sec-Fetch-Dest": "empty", "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}
SECRETS = {"Cookie": "tarrafa=x; hl=pt", "Authorization": "Bearer secret"}


def is_installed() -> bool:
    try:
        return bool(load_package())
    except DataError:
        return False


needs_wabac = pytest.mark.skipif(not is_installed(), reason="wabac.js is not installed: `tarrafa get-replay`")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> DataDirectory:
    from tarrafa.captures import follower
    from tests.captures.archived_site import write_site

    data = new_archive(tmp_path_factory.mktemp("host") / "data")
    site = write_site(data)
    write_demo(site)
    site.visit("http://demo.test/file.pdf", FIRST_AT, b"%PDF", header="Content-Type: application/pdf", has_page=False)
    site.visit("http://demo.test/odd", FIRST_AT, b"x", status=799, header="Content-Type: text/html\r\nRefresh: 0;/x")
    site.close()
    follower.catch_up(data)
    record_action(data, "add", parse_target(DOWN), "ana", "a reason", FIRST_AT)
    return data


@pytest.fixture(scope="module")
def site(data: DataDirectory) -> Iterator[RunningSite]:
    with RunningSite(data, replay=SITE) as running:
        yield running


# -- two names ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["/", "/?q=x", "/search.json?q=x", "/console/", "/console/login", "/api", "/api/v1/me", "/cdx?url=x", "/copy?url=x",
     f"/web/{PAGE}", "/static/style.css", "/static/replay_bar.js", "/healthz", "/status", "/sparql", "/metrics",
     "//w/"],
)  # fmt: skip
@pytest.mark.parametrize("host", [REPLAY, REPLAY.upper(), "replay.tarrafa.localhost", "replay.tarrafa.localhost.:1"])
def test_the_replay_name_serves_nothing_of_the_site(site, path, host):
    for method in ("GET", "POST", "DELETE"):
        response, text = site.get(path, method, {"Host": host, **SECRETS})
        assert (response.status, text) == (404, "not found\n")
        assert response.headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
        assert "Set-Cookie" not in response.headers


@pytest.mark.parametrize("path", [f"/capture/{AT}id_/{DEMO}", "/replay_worker.js", f"/w/all/{AT}mp_/{DEMO}"])
@pytest.mark.parametrize("host", ["127.0.0.1:8080", MAIN, f"evil.{REPLAY}", "replay.localhost"])
def test_the_site_serves_nothing_of_the_replay(site, path, host):
    assert site.get(path, headers=FROM_WORKER | {"Host": host})[0].status == 404


@needs_wabac
def test_each_name_frames_or_is_framed_by_the_other_only(site):
    response, text = site.get(f"/copy?url={DEMO}&hl=en", headers={"Host": MAIN})
    policy = response.headers["Content-Security-Policy"]
    assert f"frame-src http://{REPLAY}" in policy and "default-src 'none'" in policy and "script-src 'self'" in policy
    assert f'src="http://{REPLAY}/w/all/' in text and 'sandbox="allow-scripts allow-same-origin allow-forms"' in text
    response, text = site.get(f"/w/all/{AT}mp_/{DEMO}", headers={"Host": REPLAY, **SECRETS})
    policy = response.headers["Content-Security-Policy"]
    assert policy == f"default-src 'none'; script-src 'self'; style-src 'self'; frame-ancestors 'self' http://{MAIN}"
    assert "Set-Cookie" not in response.headers and "X-Frame-Options" not in response.headers
    _, worker = site.get("/replay_worker.js", headers={"Host": REPLAY})
    assert f"frame-ancestors 'self' http://{MAIN}; sandbox allow-scripts allow-same-origin allow-forms" in worker


@needs_wabac
def test_wabac_is_loaded_by_our_service_worker_only_and_comes_with_licence_and_source(site):
    script = f"/wabac-{VERSION}.js"
    for refused in ({"Service-Worker": "script"}, {"Sec-Fetch-Dest": "serviceworker"}, {"Sec-Fetch-Dest": "document"}):
        assert site.get(script, headers={"Host": REPLAY} | refused)[0].status == 403
    response, text = site.get(script, headers={"Host": REPLAY, "Sec-Fetch-Dest": "script"})
    assert response.status == 200 and "Affero General Public License" in text[:400]
    assert "GNU AFFERO" in site.get(f"/wabac-{VERSION}.LICENSE.md", headers={"Host": REPLAY})[1]
    response, _ = site.get("/replay_worker.js", headers={"Host": REPLAY, "Service-Worker": "script"})
    policy = response.headers["Content-Security-Policy"]
    assert response.status == 200 and policy == "default-src 'none'; script-src 'self'; connect-src 'self' blob:"
    assert site.get("/replay_start.js", headers={"Host": REPLAY, "Service-Worker": "script"})[0].status == 404


@pytest.mark.parametrize("form", ["mp_", "id_", ""])
def test_an_archived_page_in_a_tab_of_its_own_leads_to_the_site(site, form):
    headers = {"Host": REPLAY, "Sec-Fetch-Dest": "document"}
    response, text = site.get(f"/w/all/{AT}{form}/{DEMO}?a=1&b=%2F", headers=headers)
    target = f"http://{MAIN}/copy?url=http%3A%2F%2Fdemo.test%2F%3Fa%3D1%26b%3D%252F&at={AT}"
    assert response.status == 200 and target in links(text) and "<script" not in text
    assert response.headers["Connection-Allowlist"] == f'(response-origin "http://{MAIN}/*")'
    for path in ("/w/", "/w/all/", f"/w/all/{AT}mp_/javascript:alert(1)", f"/w/all/{AT}mp_/ftp://demo.test/"):
        assert site.get(path, headers=headers)[0].status == 404


# -- captures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [{"Sec-Fetch-Dest": dest} for dest in ("", "document", "script", "serviceworker", "iframe", "image", "worker")]
    + [{"Sec-Fetch-Site": where} for where in ("", "same-site", "cross-site", "none")],
)
def test_a_capture_is_given_to_the_service_worker_only(site, change):
    assert site.get(f"/capture/{AT}id_/{DEMO}", headers=FROM_WORKER | change)[0].status == 403


def test_a_capture_has_its_status_and_type_and_no_power(site):
    response, text = site.get(f"/capture/{AT}id_/{DEMO}", headers=FROM_WORKER)
    assert response.status == 200 and "Version 0" in text
    assert response.headers["X-Redirect-Status"] == "200"
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    assert response.headers["Memento-Datetime"] == "Mon, 21 Sep 2026 14:13:20 GMT"
    assert response.headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
    assert response.headers["Cache-Control"] == "no-store" and "Set-Cookie" not in response.headers
    response, _ = site.get(f"/capture/{AT}id_/http://demo.test/odd", headers=FROM_WORKER)
    assert response.headers["X-Redirect-Status"] == "200" and "Refresh" not in response.headers
    _, text = site.get(f"/capture/id_/{DEMO}", headers=FROM_WORKER)
    assert "Version 1" in text  # without a date the newest


def test_a_redirect_names_its_target(site):
    response, _ = site.get(f"/capture/{AT}id_/{MOVED}", headers=FROM_WORKER)
    assert (response.status, response.headers["X-Redirect-Status"]) == (200, "301")
    assert response.headers["X-Orig-Location"] == PAGE and "Location" not in response.headers


@pytest.mark.parametrize("name", ["gzip", "br", "zstd"])
def test_a_body_comes_decoded(site, name):
    response, text = site.get(f"/capture/{AT}id_/{ENCODED.format(name=f'{name}-True.html')}", headers=FROM_WORKER)
    assert text.startswith("<html><p>olá") and "Content-Encoding" not in response.headers


@pytest.mark.parametrize(
    ("url", "code", "sentence"),
    [
        (DOWN, "451", "This page was taken down: nothing of it is shown here."),
        (SHY, "403", "asks not to be shown from an archive"),
        ("http://nowhere.test/", "404", "No capture of this URL is in this archive."),
        ("http://nowhere.test/<script>", "404", "No capture of this URL is in this archive."),
        ("http://", "404", "Which page?"),
    ],
)
def test_what_is_not_shown_is_said_with_its_status(site, url, code, sentence):
    response, text = site.get(f"/capture/{AT}id_/{url}", headers=FROM_WORKER)
    assert response.headers.get("X-Redirect-Status", str(response.status)) == code
    assert sentence in text and "<script" not in text


def test_parts_of_a_page_have_a_rate_limit_of_their_own(data):
    rate = RateLimit(per_s=1.0, local=True)
    path = f"/capture/{AT}id_/{DEMO}"
    with RunningSite(data, replay=SITE, rate=rate) as site:
        codes = [site.get(path, headers=FROM_WORKER)[0].status for _ in range(60)]
        assert set(codes) == {200}
        assert site.get("/?q=x")[0].status != 429
        assert 429 in [site.get(path, headers=FROM_WORKER)[0].status for _ in range(600)]


# -- without a replay --------------------------------------------------------------------------------------------------


@needs_wabac
def test_a_type_that_a_frame_does_not_show_has_its_text_view(site):
    response, text = site.get("/copy?url=http://demo.test/file.pdf", headers={"Host": MAIN})
    assert response.status == 200 and "<iframe" not in text and "Bytes as archived" in text


@needs_wabac
def test_the_text_and_the_replay_lead_to_each_other(site):
    _, text = site.get(f"/copy?url={DEMO}&hl=en", headers={"Host": MAIN})
    as_text = next(link for link in links(text) if link.endswith("&as=text"))
    _, text = site.get(as_text, headers={"Host": MAIN})
    assert "without scripts, images and styles" in text and "<iframe" not in text
    assert "/copy?url=http%3A%2F%2Fdemo.test%2F&at=20261031141320&hl=en" in links(text)


@needs_wabac
def test_under_another_address_replay_is_off_and_the_right_one_is_named(site):
    for host in ("127.0.0.1:8080", "evil.test", f"{MAIN}1"):
        response, text = site.get(f"/copy?url={DEMO}&hl=en", headers={"Host": host})
        assert response.status == 200 and "<iframe" not in text and "Version" in text
        assert f"it is on at http://{MAIN}." in text
        assert "frame-src" not in response.headers["Content-Security-Policy"]


def test_without_wabac_replay_is_off_and_the_page_says_why(data, tmp_path, monkeypatch):
    monkeypatch.setattr(wabac_package, "package_path", lambda: tmp_path / FILE_NAME)
    with RunningSite(data, replay=SITE) as site:
        response, text = site.get(f"/copy?url={DEMO}&hl=en", headers={"Host": MAIN})
        assert response.status == 200 and "<iframe" not in text
        assert "Replay with images and styles is off: wabac.js is not installed" in text
        _, text = site.get(f"/copy?url={DEMO}&hl=pt", headers={"Host": MAIN})
        assert "está desligada: wabac.js não está instalado" in text
        _, text = site.get(f"/w/all/{AT}mp_/{DEMO}", headers={"Host": REPLAY})
        assert "wabac.js is not installed" in text and "<script" not in text
        assert site.get("/replay_worker.js", headers={"Host": REPLAY})[0].status == 404


def test_without_a_second_name_only_the_operator_hears_of_replay(data):
    with RunningSite(data) as site:
        _, here = site.get(f"/copy?url={DEMO}&hl=en")
        assert "--replay-url" in here and "Version" in here and "<iframe" not in here
        _, elsewhere = site.get(f"/copy?url={DEMO}&hl=en", headers={"Host": "search.example.br"})
        assert "--replay-url" not in elsewhere
        assert site.get(f"/capture/{AT}id_/{DEMO}", headers=FROM_WORKER)[0].status == 404


# -- configuration -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "public", "sentence"),
    [
        ("replay.localhost:8080", "", "write scheme, name and port"),
        ("http://", "", "write scheme, name and port"),
        ("http://replay.localhost:99999", "", "write scheme, name and port"),
        ("http://replay.localhost:8080/path", "", "write scheme, name and port"),
        ("http://user@replay.localhost:8080", "", "write scheme, name and port"),
        ("http://replay.example.br", "https://search.example.br", "must begin with https://"),
        ("http://10.0.0.1:8080", "", "must begin with https://"),
        ("https://replay.example.br", "", "needs --public-url"),
        ("https://replay.example.br", "http://search.example.br", "needs --public-url"),
        ("https://search.example.br:8443", "https://search.example.br", "must be another host name"),
        ("https://Search.example.br", "https://search.example.br/", "must be another host name"),
        ("http://localhost:8080", "", "the site itself is found under that name"),
        ("http://127.0.0.1:8081", "", "the site itself is found under that name"),
        ("http://replay.localhost:8080", "https://search.example.br", "a loopback name"),
    ],
)
def test_a_replay_url_that_is_not_safe_is_refused(text, public, sentence):
    with pytest.raises(ConfigError, match=sentence):
        ReplaySite.parse(text, public)


@pytest.mark.parametrize(
    ("text", "public", "framed_by"),
    [
        ("http://replay.tarrafa.localhost:8080", "", ("http://tarrafa.localhost:8080",)),
        ("http://replay.localhost:8080/", "", ("http://127.0.0.1:8080", "http://localhost:8080")),
        ("http://127.0.0.2:8080", "", ("http://127.0.0.1:8080", "http://localhost:8080")),
        ("https://replay.example.br", "https://search.example.br/", ("https://search.example.br",)),
        ("https://replay.example.br:443", "https://search.example.br:8443", ("https://search.example.br:8443",)),
    ],
)
def test_a_replay_url_names_the_pages_that_may_frame_it(text, public, framed_by):
    assert ReplaySite.parse(text, public).framed_by == framed_by


# -- the package -------------------------------------------------------------------------------------------------------


def test_another_package_than_the_expected_one_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "share" / FILE_NAME
    with pytest.raises(DataError, match=r"wabac\.js is not installed"):
        load_package(path)
    other = tmp_path / "other.tgz"
    other.write_bytes(b"other")
    with pytest.raises(DataError, match="its SHA-512 is another one"):
        install_package(str(other), path)
    assert not path.exists()
    path.parent.mkdir()
    path.write_bytes(b"other")
    with pytest.raises(DataError, match="its SHA-512 is another one"):
        load_package(path)
    with pytest.raises(DataError, match="cannot be installed from there"):
        install_package("http://127.0.0.1:9/x.tgz", path)


@needs_wabac
def test_the_package_is_installed_from_a_file_and_repairs_a_damaged_one(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_bytes(b"damaged")
    install_package(str(wabac_package.package_path()), path)
    assert load_package(path).script == load_package().script
    assert install_package("/nowhere", path) == path  # it is there already


def test_the_browser_files_name_no_other_host():
    """No request of ours leaves for another host: no CDN, no fonts, no statistics."""
    folder = Path(wabac_package.__file__).parent
    texts = [path.read_text() for path in (folder / "browser").iterdir()]
    texts += [path.read_text() for path in (folder.parent / "templates").glob("replay_*.html")]
    assert len(texts) >= 5
    for text in texts:
        assert "https://" not in text and "http://" not in text
