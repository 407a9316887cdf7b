"""Here is a visit: what are its bytes?

Names become vetted addresses, robots.txt becomes rules, a request becomes an answer or a status; the Web failing is
data. Knows nothing of pages, links or what is worth fetching. `peer` asks machines of our own.
"""
