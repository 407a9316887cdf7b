"""Web server: search pages, console, REST API, and the endpoints for other nodes and for crawlers.

The search page works without JavaScript; other pages show entities, the relations of a page, and the state of the
crawl; all have JSON versions. All data from the Web are untrusted here: they are escaped, linked only if http(s), and
shown under a content security policy that runs none of them. The results come from search/ and graph/; this room only
shows them. `crawler_api` serves external crawlers.
"""
