"""Titles of the presets, and the comments in the files that they write.

Titles by preset; comments by key (`scope.hosts`), or by preset and key where a preset has a comment of its own.
"""

from tarrafa.i18n import message

HOW_TO_START = message(
    "tarrafa check {file} URL   says which URLs are in or out\n"
    "tarrafa estimate {file}    how long it will take\n"
    "tarrafa crawl {file}       starts it, and goes on after a stop"
)
TITLES = {
    "page": message("One page: the page itself, and nothing that it links to."),
    "directory": message("One directory: everything below one path of a host."),
    "site": message("One site: everything on one host."),
    "subdomains": message("A site with its subdomains: everything below a registered domain."),
    "country": message("A country's domain: everything below a top-level domain, within limits for each host."),
    "rdfa": message("Structured data: only pages of a site that carry RDFa, JSON-LD or microdata are kept."),
    "legal-deposit": message(
        "Legal deposit: a publisher's site with its documents, again every month, old versions kept."
    ),
    "breadth": message(
        "Discovery in breadth: which sites does a country have? A few pages of each, the most mentioned first."
    ),
}
COMMENTS = {
    "roots": message("Where to begin: URLs or host names. They are visited whatever the scope says."),
    "scope.hosts": message("With and without www., where there are both: many sites redirect from one to the other."),
    "subdomains scope.hosts": message("The registered domain and everything below it, at any depth."),
    "rdfa scope.hosts": message("The registered domain and everything below it, at any depth."),
    "legal-deposit scope.hosts": message("The publisher's registered domain and everything below it."),
    "country scope.hosts": message("Everything below the country's domain. Add the country's sites elsewhere by name."),
    "breadth scope.hosts": message("Sites of the country. Links to others are counted, not followed."),
    "scope.include": message(
        "Only URLs that match one of these belong, over http or https.\n"
        "Pages outside are not fetched, so what is linked from there only is not found."
    ),
    "scope.exclude": message("Pages without content of their own, often without end."),
    "page scope.depth_max": message("No links are followed; redirects are, they cost no depth."),
    "country scope.depth_max": message("What lies deeper than this is mostly made by machines."),
    "scope.host_pages_max": message(
        "No host may take the whole crawl; at one request every two seconds this is six hours."
    ),
    "legal-deposit scope.host_pages_max": message("A deposit wants all of it."),
    "scope.site_hosts_max": message("Domains with a wildcard have hosts without end."),
    "scope.keep": message("All links are followed; only pages that state something are kept."),
    "scope.types": message("Publications are not only pages."),
    "legal-deposit scope.size_max": message("A book in PDF is large."),
    "breadth scope.size_max": message("A first page larger than this says little more."),
    "scope.copies_max": message("The same text under several addresses was published under several addresses."),
    "politeness.delay": message("Between the end of an answer and the next request to the same host."),
    "politeness.contact": message("A page or address where webmasters reach you; sent with every request."),
    "fetch.sitemaps": message("Sitemaps and feeds would lead to other pages."),
    "breadth fetch.sitemaps": message("They lead deeper into a site; this looks for others."),
    "fetch.time_max": message("Large documents take their time."),
    "fetch.retries": message("What is missing in a deposit is missing for ever."),
    "strategy.order": message("What most pages link to comes first: whenever it ends, the important pages are there."),
    "breadth strategy.order": message("Sites that were not visited yet come first."),
    "strategy.favour": message("Matters once hosts of other domains are added above."),
    "strategy.penalise": message("A poor choice for a site's first page."),
    "schedule.every": message(
        "At two in the morning of each month's first day (UTC; timezone = names another), from the roots again.\n"
        "`tarrafa node` keeps to it; `tarrafa crawl` makes one run."
    ),
}
