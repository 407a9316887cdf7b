"""Lists URLs at private and reserved addresses, to which a crawler must never connect.

Promises: nothing is served here. A crawl with its address guard on that begins at these URLs refuses each of them
(ADDRESS_REFUSED) without a connection.
Knows nothing of names that resolve to such addresses: there is no name server here.
"""

FORBIDDEN_ROOTS: tuple[str, ...] = (
    "http://127.0.0.1:1/",
    "http://127.1:1/",
    "http://0x7f000001/",
    "http://2130706433/",
    "http://017700000001/",
    "http://0.0.0.0/",
    "http://10.0.0.1/",
    "http://172.16.0.1/",
    "http://192.168.0.1/",
    "http://100.64.0.1/",  # carrier-grade NAT, RFC 6598
    "http://169.254.169.254/latest/meta-data/",
    "http://192.0.2.1/",  # documentation
    "http://224.0.0.1/",
    "http://255.255.255.255/",
    "http://[::1]:1/",
    "http://[::]/",
    "http://[::ffff:10.0.0.1]/",
    "http://[::ffff:127.0.0.1]:1/",
    "http://[64:ff9b::7f00:1]/",  # 127.0.0.1 by NAT64
    "http://[2002:7f00:1::]/",  # 127.0.0.1 by 6to4
    "http://[fe80::1]/",
    "http://[fd00::1]/",
    "http://[ff02::1]/",
)
