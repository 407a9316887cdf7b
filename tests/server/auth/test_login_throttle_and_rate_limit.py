"""How often a password may be tried, and how much an address may ask."""

from functools import partial

import pytest
from starlette.requests import HTTPConnection

from tarrafa.errors import ConfigError
from tarrafa.server.auth.login_throttle import (
    ACCOUNT_WAIT_MAX_S,
    ADDRESS_WAIT_MAX_S,
    FREE_ATTEMPTS,
    KEPT_MAX,
    LoginThrottle,
)
from tarrafa.server.auth.request_origin import TrustedProxies, client_address, is_cross_site
from tarrafa.server.rate_limit import BURST_S, RateLimit, RateLimitMiddleware, TokenBuckets
from tests.server.console.example_console import TOKEN, ExampleSite, SteppedClock

PROXY = ["192.0.2.1"]
LOOPBACK = TrustedProxies.parse(["127.0.0.0/8"])


def a_connection(client: str = "192.0.2.1", **headers: str) -> HTTPConnection:
    lines = [(name.replace("_", "-").lower().encode(), value.encode()) for name, value in headers.items()]
    return HTTPConnection({"type": "http", "client": (client, 1), "headers": lines, "path": "/", "scheme": "http"})


def test_wrong_passwords_cost_more_and_more_time_and_a_right_one_forgives():
    now = SteppedClock()
    delays = LoginThrottle(now)
    waits = list[float]()
    for _ in range(FREE_ATTEMPTS + 4):
        waits.append(delays.wait_s("a", f"account {len(waits)}"))
        now.at += waits[-1]
        delays.record_attempt("a", f"account {len(waits)}")
    assert waits == [0.0] * FREE_ATTEMPTS + [1.0, 2.0, 4.0, 8.0]
    assert delays.wait_s("b", "") == 0.0, "others do not wait"
    delays.record_success("a", "ana")
    assert delays.wait_s("a", "ana") == 0.0


def test_an_account_is_tried_from_many_addresses_at_one_pace_and_its_owner_waits_little():
    now = SteppedClock()
    delays = LoginThrottle(now)
    for number in range(1_000):
        delays.record_attempt(f"address {number}", "ana")
    assert delays.wait_s("another", "ana") == ACCOUNT_WAIT_MAX_S
    for number in range(1_000):
        delays.record_attempt("one address", f"name {number}")
    assert delays.wait_s("one address", "x") == ADDRESS_WAIT_MAX_S


def test_however_many_try_only_so_many_are_remembered():
    delays = LoginThrottle(SteppedClock())
    for number in range(KEPT_MAX + 100):
        delays.record_attempt(f"address {number}", f"account {number}")
    assert [len(kept) for kept in delays._tries.values()] == [KEPT_MAX, KEPT_MAX]


def test_a_bucket_gives_its_burst_then_its_rate():
    now = SteppedClock()
    buckets = TokenBuckets(10, now)
    assert [buckets.take("a") for _ in range(int(10 * BURST_S))] == [0.0] * int(10 * BURST_S)
    assert buckets.take("a") == pytest.approx(0.1)
    assert buckets.take("b") == 0.0
    now.at += 0.125
    assert buckets.take("a") == 0.0
    assert buckets.take("a", 5) == pytest.approx(0.475)
    now.at += 1e9
    assert buckets.take("a", 10 * BURST_S) == 0.0


def test_only_so_many_buckets_are_kept():
    buckets = TokenBuckets(10, SteppedClock(), most=100)
    for number in range(1_000):
        buckets.take(str(number))
    assert len(buckets) == 100


@pytest.mark.parametrize(("text", "per_s"), [("10/s", 10), ("90/min", 1.5), ("0", 0), ("2.5", 2.5), (" 7 / s ", 7)])
def test_a_rate_as_people_write_it(text, per_s):
    assert RateLimit.parse(text).per_s == per_s


@pytest.mark.parametrize("text", ["", "x", "-1/s", "10/h", "1e9/s", "9999999/s", "ten"])
def test_a_rate_that_cannot_be_meant_is_one_sentence(text):
    with pytest.raises(ConfigError, match="--rate-limit"):
        RateLimit.parse(text)


@pytest.mark.parametrize(
    ("client", "forwarded", "proxies", "address"),
    [
        ("192.0.2.1", "", [], "192.0.2.1"),
        ("192.0.2.1", "198.51.100.7", [], "192.0.2.1"),
        ("192.0.2.1", "198.51.100.7", PROXY, "198.51.100.7"),
        ("192.0.2.9", "198.51.100.7", PROXY, "192.0.2.9"),  # not the proxy: a client that went around it
        ("192.0.2.9", "198.51.100.7", ["192.0.2.0/24"], "198.51.100.7"),
        ("192.0.2.1", "6.6.6.6, 198.51.100.7", PROXY, "198.51.100.7"),
        ("192.0.2.1", "6.6.6.6, 198.51.100.7, 10.1.2.3", [*PROXY, "10.0.0.0/8"], "198.51.100.7"),  # two proxies
        ("192.0.2.1", "6.6.6.6, 198.51.100.7, 10.1.2.3", PROXY, "10.1.2.3"),
        ("192.0.2.1", "192.0.2.1," * 5_000, PROXY, "192.0.2.1"),
        ("192.0.2.1", "198.51.100.7:4711", PROXY, "198.51.100.7"),
        ("192.0.2.1", "[2001:db8:1:2:3::4]:4711", PROXY, "2001:db8:1:2::/64"),
        ("192.0.2.1", "junk", PROXY, "192.0.2.1"),
        ("192.0.2.1", "", PROXY, "192.0.2.1"),
        ("192.0.2.1", "x" * 10_000, PROXY, "192.0.2.1"),
        ("::ffff:192.0.2.1", "198.51.100.7", PROXY, "198.51.100.7"),
        ("2001:db8::5", "198.51.100.7", ["2001:db8::5"], "198.51.100.7"),
        ("2001:db8::6", "198.51.100.7", ["2001:db8::5"], "2001:db8::/64"),
        ("2001:db8:1:2:aaaa::1", "", [], "2001:db8:1:2::/64"),
        ("2001:db8:1:2:bbbb::1", "", [], "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.1", "", [], "192.0.2.1"),
        ("::1", "", [], "::1"),
        ("fe80::1%eth0", "", [], "fe80::/64"),
        ("", "198.51.100.7", PROXY, "unknown"),
    ],
)
def test_an_address_is_that_of_the_connection_or_what_a_named_proxy_wrote_last(client, forwarded, proxies, address):
    headers = {"X_Forwarded_For": forwarded} if forwarded else {}
    assert client_address(a_connection(client, **headers), TrustedProxies.parse(proxies)) == address


@pytest.mark.parametrize("name", ["", "proxy.example.br", "10.0.0.5/8", "10.0.0.0/33", "--public-url", "1.2.3"])
def test_a_proxy_that_is_no_address_is_one_sentence(name):
    with pytest.raises(ConfigError, match=r"--behind-proxy: .*: name an IP address or a network") as raised:
        TrustedProxies.parse(["10.0.0.1", name])
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("headers", "public", "elsewhere"),
    [
        ({}, "", False),
        ({"Origin": "http://search.br"}, "", False),
        ({"Origin": "https://search.br"}, "", True),  # port 443 is not the port that was asked
        ({"Origin": "https://search.br"}, "https://search.br", False),
        ({"Origin": "http://search.br:80"}, "", False),
        ({"Origin": "http://evil.test"}, "", True),
        ({"Origin": "http://search.br.evil.test"}, "https://search.br", True),
        ({"Origin": "http://search.br:8080"}, "", True),
        ({"Origin": "null"}, "", True),
        ({"Origin": ""}, "", True),
        ({"Origin": "http://[junk"}, "", True),
        ({"Origin": "http://search.br:port"}, "", True),
        ({"Sec_Fetch_Site": "same-origin", "Origin": "http://search.br"}, "", False),
        ({"Sec_Fetch_Site": "none"}, "", False),
        ({"Sec_Fetch_Site": "cross-site"}, "", True),
        ({"Sec_Fetch_Site": "same-site"}, "", True),
        ({"Sec_Fetch_Site": "same-origin", "Origin": "http://evil.test"}, "", True),
    ],
)
def test_a_form_that_a_page_elsewhere_sends_is_known_by_what_the_browser_says(headers, public, elsewhere):
    host = "search.br:80" if not public else "search.br"
    assert is_cross_site(a_connection(Host=host, **headers), public) is elsewhere


def test_an_address_that_asks_too_much_is_told_when_to_come_back(data, monkeypatch):
    monkeypatch.setattr(
        "tarrafa.server.app.RateLimitMiddleware", partial(RateLimitMiddleware, now=SteppedClock())
    )  # however long the answers take
    rate = RateLimit(1.0, proxies=LOOPBACK)
    with ExampleSite(data, token=TOKEN, proxies=LOOPBACK, rate=rate) as site:
        one, other = site.client(X_Forwarded_For="192.0.2.1"), site.client(X_Forwarded_For="192.0.2.2")
        codes = [one.get("/suggest?q=a").code for _ in range(29)] + [one.get("/search.json?q=a").code for _ in range(3)]
        assert codes[-1] == 429
        assert 429 not in codes[:29]
        refused = one.get("/sparql?query=ASK%7B%7D", Accept="text/html")
        assert (refused.code, refused.text) == (429, "too many requests from your address: wait a moment\n")
        assert 1 <= int(refused.headers["retry-after"]) <= 10
        assert refused.headers["content-security-policy"].startswith("default-src 'none'")
        told = one.get("/search.json?q=a")
        assert (told.code, told.headers["content-type"]) == (429, "application/problem+json")
        assert other.get("/api").code == 200
        assert one.get("/healthz").code == 200
        assert {one.get("/api/v1/me", Authorization=f"Bearer {TOKEN}").code for _ in range(10)} == {200}
        assert one.get("/api/v1/me", Authorization=f"Bearer {TOKEN}x").code == 429
        assert one.get("/static/style.css").code == 200


def test_a_client_that_is_no_named_proxy_gets_no_second_bucket_by_a_header(data, monkeypatch, caplog):
    monkeypatch.setattr("tarrafa.server.app.RateLimitMiddleware", partial(RateLimitMiddleware, now=SteppedClock()))
    elsewhere = TrustedProxies.parse(["192.0.2.1"])
    with ExampleSite(data, token=TOKEN, proxies=elsewhere, rate=RateLimit(0.5, proxies=elsewhere)) as site:
        codes = [site.client(X_Forwarded_For=f"198.51.100.{n}").get("/api").code for n in range(20)]
    assert codes[-1] == 429
    assert [one.getMessage() for one in caplog.records if "X-Forwarded-For of 127.0.0.1 is ignored" in one.getMessage()]


def test_a_client_that_is_no_named_proxy_waits_for_its_next_login_whatever_its_header_says(data):
    with ExampleSite(data, token=TOKEN, proxies=TrustedProxies.parse(["192.0.2.1"])) as site:
        client = site.client()
        codes = [
            client.sign_in(f"ana{n}", "wrong", X_Forwarded_For=f"198.51.100.{n}").code for n in range(FREE_ATTEMPTS + 2)
        ]
    assert codes[-1] == 429


def test_those_at_this_machine_may_ask_any_amount_unless_somebody_says_otherwise(tmp_path, data, monkeypatch):
    monkeypatch.setattr("tarrafa.server.app.RateLimitMiddleware", partial(RateLimitMiddleware, now=SteppedClock()))
    with ExampleSite(data, rate=RateLimit(0.5)) as site:
        assert {site.client().get("/api").code for _ in range(20)} == {200}
    with ExampleSite(data, rate=RateLimit(0.5, local=True)) as site:
        assert 429 in {site.client().get("/api").code for _ in range(20)}
