"""Fetching: DNS, address guard, robots.txt rules, HTTP client and limits of transfers.

Promises: a host name becomes an allowed address, a robots.txt becomes rules, a request becomes a response or a status.
A failure of the Web is data, not an exception.
Knows nothing of pages, links or which URL is worth fetching. `node_client` makes requests to other nodes of this
installation.
"""
