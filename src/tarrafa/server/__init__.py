"""Web server: search pages, console, REST API, and the endpoints for other nodes and for crawlers.

A search page that works without JavaScript, things that pages speak of, each page's relations, the crawl's state, and
the same answers as JSON. Everything that came from the Web is hostile here: it is escaped, never linked unless
http(s), and shown under a policy that runs nothing of it. The answers themselves are made in search/ and graph/; this
room only shows them. Another door (`crawlers`) is for programs that crawl for us.
"""
