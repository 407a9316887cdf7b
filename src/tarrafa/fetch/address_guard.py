"""Address guard: refuses IP addresses that are not on the public Internet.

A page may link to anything. A crawler that follows such a link inside its own network fetches the cloud's secrets, the
printer and a neighbour's database. The lists are IANA's registries of special addresses (RFC 6890), written out here
rather than taken from `ipaddress`, whose `is_global` changes from one Python version to the next. For IPv6 the rule is
reversed: an address outside global unicast (2000::/3) is not public, whatever it may become. An IPv4 address inside an
IPv6 address is checked, too.
Known weakness: services that our own machine or network offers on its public addresses cannot be told from others.
Pure.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

FORBIDDEN_4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network: Linux takes 0.0.0.0 for the machine itself
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT; a cloud's metadata (100.100.100.200)
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's own services, at an address that looks public
        "169.254.0.0/16",  # link-local; most clouds' metadata
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",
        "192.88.99.0/24",  # 6to4 relays, gone
        "192.168.0.0/16",
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
GLOBAL_6 = IPv6Network("2000::/3")
FORBIDDEN_6 = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments, Teredo, benchmarks, ORCHID
        "2001:db8::/32",
        "3fff::/20",
    )
)
MAPPED_6, NAT64 = IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96")
SIX_TO_FOUR = IPv6Network("2002::/16")
ISATAP = frozenset({0x00005EFE, 0x02005EFE})  # RFC 5214: the bits before the IPv4 address


def is_forbidden_address(address: str) -> bool:
    """Whether the text is no address of the public Internet, or no address at all."""
    try:
        ip = ip_address(address)
    except ValueError:
        return True
    if isinstance(ip, IPv4Address):
        return _forbidden_4(ip)
    return ip.scope_id is not None or _forbidden_6(ip)  # a zone is meaningful only on our own links


def _forbidden_6(ip: IPv6Address) -> bool:
    if ip in MAPPED_6 or ip in NAT64:
        return _forbidden_4(_ipv4_at(ip, 0))
    if ip not in GLOBAL_6 or any(ip in network for network in FORBIDDEN_6):
        return True
    if ip in SIX_TO_FOUR and _forbidden_4(_ipv4_at(ip, 80)):
        return True
    return int(ip) >> 32 & 0xFFFFFFFF in ISATAP and _forbidden_4(_ipv4_at(ip, 0))


def _forbidden_4(ip: IPv4Address) -> bool:
    return any(ip in network for network in FORBIDDEN_4)


def _ipv4_at(ip: IPv6Address, bit: int) -> IPv4Address:
    return IPv4Address(int(ip) >> bit & 0xFFFFFFFF)
