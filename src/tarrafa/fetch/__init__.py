"""Fetching: DNS, address guard, robots.txt rules, HTTP client and throttling.

Names become vetted addresses, robots.txt becomes rules, a request becomes an answer or a status; the Web failing is
data. Knows nothing of pages, links or what is worth fetching. `peer` asks machines of our own.
"""
