"""Labels, help and choices of the collection fields, for forms."""

from typing import NamedTuple

from tarrafa.i18n import Message, message


class FieldLabel(NamedTuple):
    """What a field is called, and what it is for."""

    label: Message | str
    help: Message | str = ""


SECTION_LABELS = {
    "": message("Collection"),
    "scope": message("What belongs to it"),
    "politeness": message("How gently"),
    "fetch": message("Limits of a transfer"),
    "strategy": message("What comes first"),
    "revisit": message("When to come back"),
    "schedule": message("When it runs"),
    "notify": message("Who hears of it"),
    "network": message("Network"),
    "identity": message("Which URLs are the same page"),
}
FIELD_LABELS = {
    "name": FieldLabel(message("Name"), message("a-z, 0-9, dot, underscore and hyphen; it stays as it is")),
    "roots": FieldLabel(
        message("Where to begin"), message("URLs or host names, one per line; always visited, whatever the scope says")
    ),
    "scope.hosts": FieldLabel(
        message("Hosts in scope"),
        message("one pattern per line: www.a.br that host, *.br everything below br, * all; empty: the roots' hosts"),
    ),
    "scope.include": FieldLabel(
        message("Only these URLs"),
        message("one pattern per line, such as http*://www.a.br/news/*; empty: all on those hosts"),
    ),
    "scope.exclude": FieldLabel(message("Not these URLs"), message("one pattern per line, such as */login*")),
    "scope.types": FieldLabel(
        message("Types of documents"), message("MIME types, one per line; the rest is not fetched")
    ),
    "scope.size_max": FieldLabel(message("Largest document"), message("such as 2 MB; what is larger is cut")),
    "scope.depth_max": FieldLabel(
        message("Depth"), message("the most clicks from where it begins; 0: only the roots; empty: no limit")
    ),
    "scope.pages_max": FieldLabel(message("Pages"), message("the most pages to keep; empty: no limit")),
    "scope.requests_max": FieldLabel(message("Visits"), message("the most visits, kept or not; empty: no limit")),
    "scope.host_pages_max": FieldLabel(message("Visits of one host"), message("the most")),
    "scope.site_hosts_max": FieldLabel(
        message("Hosts of one site"), message("the most; some domains have names without end")
    ),
    "scope.copies_max": FieldLabel(
        message("Copies of a text"), message("more URLs of a host with the very same text are not kept")
    ),
    "scope.alike_max": FieldLabel(
        message("Texts alike"), message("the same for texts that differ in numbers only, such as calendars")
    ),
    "scope.languages": FieldLabel(
        message("Languages"), message("codes such as pt, one per line: only pages in these are kept; empty: all")
    ),
    "scope.beyond": FieldLabel(
        message("Look beyond the hosts"), message("with languages: what kept pages link to elsewhere is looked at, too")
    ),
    "scope.keep": FieldLabel(message("Keep"), message("all pages, or only those that carry structured data")),
    "scope.vocabularies": FieldLabel(
        message("Vocabularies"),
        message("with structured data: only pages with one of these, such as schema; one per line"),
    ),
    "politeness.delay": FieldLabel(
        message("Pause between requests"),
        message("between the end of an answer and the next request to the same host, such as 1 s"),
    ),
    "politeness.delays": FieldLabel(
        message("Pauses of some hosts"), message("one per line: pattern = pause, such as *.a.br = 5 s")
    ),
    "politeness.delay_factor": FieldLabel(
        message("Pause by duration"), message("and no sooner than so many times the last answer's duration")
    ),
    "politeness.delay_max": FieldLabel(
        message("Longest pause"), message("the most that a Crawl-delay or a slow answer may ask for")
    ),
    "politeness.backoff": FieldLabel(
        message("Pause after a failure"), message("doubles with each failure, up to a day")
    ),
    "politeness.per_ip": FieldLabel(
        message("One host per address"), message("hosts that share an IP address are treated as one")
    ),
    "politeness.robots": FieldLabel(message("robots.txt"), message("ignore it only on hosts of your own")),
    "politeness.user_agent": FieldLabel(
        message("Our name"), message("what the crawler calls itself; webmasters see it")
    ),
    "politeness.contact": FieldLabel(
        message("Contact"), message("a page or an address where webmasters reach you; sent with every request")
    ),
    "politeness.email": FieldLabel(message("E-mail"), message("sent with every request as From")),
    "fetch.time_max": FieldLabel(message("Longest transfer"), message("such as 10 min")),
    "fetch.connect_timeout": FieldLabel(message("Time to connect"), message("such as 20 s")),
    "fetch.stall_timeout": FieldLabel(
        message("Longest silence"), message("a transfer that brings nothing for so long is given up")
    ),
    "fetch.hosts_at_once": FieldLabel(message("Hosts at once"), message("that one worker visits")),
    "fetch.redirects_max": FieldLabel(message("Redirects"), message("the longest chain")),
    "fetch.retries": FieldLabel(message("Retries"), message("of a URL, after a failure that may pass")),
    "fetch.host_failures_max": FieldLabel(
        message("Failures of a host"), message("in a row, with pauses between them; then it is given up")
    ),
    "fetch.bandwidth": FieldLabel(
        message("Bandwidth"), message("bytes a second in all, such as 2 MB; empty: no limit")
    ),
    "fetch.host_bandwidth": FieldLabel(
        message("Bandwidth of one host"), message("bytes a second, such as 200 KB; empty: no limit")
    ),
    "fetch.sitemaps": FieldLabel(message("Sitemaps"), message("follow those that robots.txt announces")),
    "fetch.feeds": FieldLabel(message("Feeds"), message("follow the RSS and Atom feeds that pages announce")),
    "strategy.order": FieldLabel(message("Order"), message("which new URLs are visited first")),
    "strategy.favour": FieldLabel(
        message("First"), message("host patterns, one per line, that are visited before others")
    ),
    "strategy.penalise": FieldLabel(
        message("Last"), message("URL patterns, one per line, that are visited after others")
    ),
    "strategy.table_max": FieldLabel(message("Sites in the table"), message("of breadth: the most")),
    "strategy.cycle": FieldLabel(message("Sites of a cycle"), message("of breadth: how many are chosen at a time")),
    "strategy.weights.length": FieldLabel(
        message("Weight of length"), message("of breadth: what a short URL is worth")
    ),
    "strategy.weights.block": FieldLabel(
        message("Weight of blocks"), message("of breadth: what few steps in the path are worth")
    ),
    "strategy.weights.favour": FieldLabel(
        message("Weight of favour"), message("of breadth: what a favoured host is worth")
    ),
    "strategy.weights.penalty": FieldLabel(
        message("Weight of penalty"), message("of breadth: what a penalised URL costs")
    ),
    "revisit.policy": FieldLabel(
        message("Keep fresh"), message("how it is decided when a page is visited again; never: it is crawled once")
    ),
    "revisit.rate": FieldLabel(message("Revisits a day"), message("the most; empty: what politeness allows")),
    "revisit.share": FieldLabel(
        message("Share of revisits"), message("of a host's visits, while new URLs wait there; more than 0, at most 1")
    ),
    "revisit.horizon": FieldLabel(message("Horizon"), message("of the policies that plan: psp, mp2, m-wolf")),
    "revisit.interval_min": FieldLabel(message("Shortest interval"), message("between two visits of a page")),
    "revisit.grace": FieldLabel(message("Grace"), message("a page that is gone is asked for once more after so long")),
    "revisit.weigh": FieldLabel(message("Pages count by"), message("their in-links, their rank, or all the same")),
    "schedule.start": FieldLabel(
        message("Start date"), message("not before this date and time, such as 2026-12-01 or 2026-12-01T03:00")
    ),
    "schedule.deadline": FieldLabel(
        message("Deadline"), message("not after this date and time, such as 2026-12-31 or 2026-12-31T23:59")
    ),
    "schedule.every": FieldLabel(
        message("Repeat"), message("daily, 7 days, 6 hours, or five fields as cron has them, such as 0 3 * * 1")
    ),
    "schedule.timezone": FieldLabel(message("Time zone"), message("of these dates, such as America/Sao_Paulo")),
    "notify.webhook": FieldLabel(message("Webhook"), message("an http or https address that hears of it")),
    "notify.email": FieldLabel(message("E-mail to"), message("one address per line")),
    "notify.events": FieldLabel(message("Tell when"), message("what is worth telling")),
    "notify.stalled": FieldLabel(message("Stalled after"), message("so long without a visit, though it runs")),
    "network.connect_to": FieldLabel(
        message("Connect to"), message("one per line: pattern = address:port, such as *.test = 127.0.0.1:8090")
    ),
    "network.allow_private": FieldLabel(
        message("Private addresses"), message("visit hosts that are not on the public Internet")
    ),
    "network.tls": FieldLabel(message("Certificates"), message("strict, or accept bad ones and note what was wrong")),
    "network.suffixes": FieldLabel(
        message("Domain suffixes"), message("beside those of the public list, one per line")
    ),
    "network.dns": FieldLabel(
        message("Name servers"),
        message("instead of the system's, one address per line, such as 9.9.9.9 or 9.9.9.9:5353"),
    ),
    "network.proxy": FieldLabel(
        message("Proxy"), message("whom all requests go through, such as http://proxy:3128 or socks5h://localhost:1080")
    ),
    "identity.fold_case": FieldLabel(message("Ignore case in paths"), message("fixed when the collection is created")),
    "identity.strip_slash": FieldLabel(
        message("Ignore a slash at the end"), message("fixed when the collection is created")
    ),
}
CHOICE_LABELS = {  # by field and value
    ("scope.keep", "all"): message("all pages"),
    ("scope.keep", "structured"): message("only pages with RDFa, JSON-LD or microdata"),
    ("politeness.robots", "obey"): message("obey"),
    ("politeness.robots", "ignore"): message("ignore"),
    ("strategy.order", "breadth"): message("breadth: new sites first"),
    ("strategy.order", "backlinks"): message("what most pages link to"),
    ("strategy.order", "fifo"): message("what was found first"),
    ("strategy.order", "lifo"): message("what was found last"),
    ("strategy.order", "random"): message("any"),
    ("revisit.policy", "index"): message("what is worth most now"),
    ("revisit.policy", "psp"): message("plan: psp"),
    ("revisit.policy", "mp2"): message("plan: mp2"),
    ("revisit.policy", "m-wolf"): message("plan: m-wolf"),
    ("revisit.policy", "uniform"): message("all equally often"),
    ("revisit.policy", "proportional"): message("as often as it changes"),
    ("revisit.policy", "rateupdate"): message("by the rate that was seen"),
    ("revisit.policy", "never"): message("never"),
    ("revisit.weigh", "links"): message("their in-links"),
    ("revisit.weigh", "rank"): message("their rank"),
    ("revisit.weigh", "equal"): message("all the same"),
    ("network.tls", "strict"): message("strict"),
    ("network.tls", "accept"): message("accept, and note"),
    ("notify.events", "started"): message("it starts"),
    ("notify.events", "finished"): message("it finishes"),
    ("notify.events", "failed"): message("it fails"),
    ("notify.events", "stalled"): message("it stalls"),
}


def field_label(name: str) -> FieldLabel:
    """A field without a label has its own name."""
    return FIELD_LABELS.get(name) or FieldLabel(name)


def choice_label(name: str, value: str) -> Message | str:
    return CHOICE_LABELS.get((name, value), value)
