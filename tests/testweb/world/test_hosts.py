"""Hosts, sizes, names and addresses."""

import ipaddress
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarrafa.errors import ConfigError
from tarrafa.testweb import BY_NAME, UrlForm, World
from tarrafa.testweb.http.web_response import WebRequest, make_response
from tarrafa.testweb.world.hosts import endpoint
from tarrafa.testweb.world.resources import Resource, ResourceKind, all_resources, path_of, resolve

PORT = 8090


def test_hosts_are_named_as_promised():
    world = World(hosts=12_000, pages=20_000)
    assert world.names()[:5] == ["h0001.br.test", "h0002.pt.test", "h0003.com.test", "h0004.br.test", "h0005.br.test"]
    assert world.root(12_000) == "http://h12000.br.test/"
    endings = [name.split(".")[1] for name in world.names()]
    assert [endings.count(domain) for domain in ("br", "pt", "com")] == [7200, 2400, 2400]


@pytest.mark.parametrize(("hosts", "pages"), [(1, 1), (40, 2000), (40, 40), (300, 1001), (7, 100_003)])
def test_pages_per_host_are_a_power_law_that_adds_up_exactly(hosts, pages):
    world = World(hosts=hosts, pages=pages)
    sizes = sorted((world.host(no).pages for no in range(1, hosts + 1)), reverse=True)
    assert sum(sizes) == pages
    assert sizes[-1] >= 1
    if pages > 20 * hosts:
        assert sizes[0] > 3 * sizes[hosts // 2], "some are much larger than most"


def test_a_large_world_is_made_in_about_a_second():
    World(hosts=2, pages=2).host(1)  # the text of the language is another matter
    started = time.process_time()
    world = World(hosts=50_000, pages=5_000_000)
    assert world.host(49_999).pages >= 1
    assert world.famous[0] >= 1
    assert time.process_time() - started < 1.5


LARGE = World(hosts=100_000, pages=100_000)


@settings(deadline=None)  # the first example also makes the world
@given(st.integers(min_value=1, max_value=LARGE.hosts))
def test_an_authority_leads_back_to_its_host(no):
    world = LARGE
    for form in (BY_NAME, UrlForm(PORT)):
        assert world.find(world.authority(no, form), PORT) == (no, form)
    assert world.find(f"{world.authority(no).upper()}:{PORT}", PORT) == (no, BY_NAME)
    address, _ = endpoint(no)
    assert ipaddress.ip_address(address).is_loopback
    assert address != "127.0.0.1"


NOBODY = ["", "h0041.br.test", "h1.br.test", "h0001.pt.test", "h0000.br.test", "127.0.0.1", "127.1.0.2:9999",
          "127.1.0.9:8090", "h0001", "h²²²².br.test", "h.test", "[::1]"]  # fmt: skip


@pytest.mark.parametrize("authority", NOBODY)
def test_nobody_lives_at_other_authorities(authority):
    assert World(hosts=40, pages=40).find(authority, PORT) is None


def test_every_eighth_host_shares_the_address_of_the_one_before_on_the_next_port():
    world, form = World(hosts=40, pages=40), UrlForm(PORT)
    places = [world.authority(no, form) for no in range(1, 41)]
    assert len(set(places)) == 40
    assert len({place.partition(":")[0] for place in places}) == 35
    assert places[7] == places[6].replace(":8090", ":8091")


def test_a_world_is_its_arguments_and_nothing_else():
    def everything(seed: int) -> list[bytes]:
        world = World(seed=seed, hosts=6, pages=90)
        found = [resource for no in range(1, 7) for resource in all_resources(world, no)]
        return [_body(world, resource) for resource in found]

    assert everything(3) == everything(3)
    assert everything(3) != everything(4)


def _body(world: World, resource: Resource) -> bytes:
    told = make_response(world, resource.no, BY_NAME, WebRequest("GET", path_of(world, resource)), 1.8e9)
    return told.encode(1.8e9, keep_alive=True)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"hosts": 0}, "hosts"), ({"hosts": 50, "pages": 49}, "pages must be at least hosts (50), got 49"),
     ({"seed": -1}, "seed"), ({"crawl_delay_share": 2}, "crawl_delay_share"), ({"changes": -1}, "changes")],
)  # fmt: skip
def test_a_world_that_cannot_be_is_refused(wrong, said):
    with pytest.raises(ConfigError) as error:
        World(**wrong)
    assert said in str(error.value)


WORLD = World(seed=9, hosts=20, pages=1500)


def test_each_resource_has_one_path_and_each_path_one_resource():
    for no in range(1, WORLD.hosts + 1):
        found = list(all_resources(WORLD, no))
        paths = [path_of(WORLD, resource) for resource in found]
        assert len(set(paths)) == len(paths)
        assert [resolve(WORLD, no, place) for place in paths] == found


def test_other_spellings_of_a_path_lead_to_the_same_page_and_other_paths_nowhere():
    no = max(range(1, 21), key=lambda no: WORLD.host(no).pages)
    place = path_of(WORLD, Resource(ResourceKind.PAGE, no, 50))
    assert resolve(WORLD, no, f"/%{ord(place[1]):02x}{place[2:]}") == Resource(ResourceKind.PAGE, no, 50)
    for wrong in (place.replace("-50", "-51"), place + "x", place + "&", place.replace("/", "//"), "/x" + place):
        assert resolve(WORLD, no, wrong) is None, wrong


@settings(deadline=None)
@given(
    st.integers(1, 20),
    st.one_of(st.text(), st.from_regex(r"/[a-z%-]{0,9}/?[a-z]*[-/]?[0-9]{0,12}(\.html|\?id=[0-9-]+)?")),
)
def test_any_target_is_answered(no, target):
    resource = resolve(WORLD, no, target)
    assert resource is None or path_of(WORLD, resource)
