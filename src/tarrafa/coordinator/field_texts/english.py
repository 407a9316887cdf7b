"""The texts of the collection fields in English."""

from tarrafa.coordinator.field_texts import Words, from_rows, pairs

FIELDS = from_rows("""
name | Name | a-z, 0-9, dot, underscore and hyphen; it stays as it is
roots | Where to begin | URLs or host names, one per line; always visited, whatever the scope says
scope.hosts | Hosts | one pattern per line: www.a.br that host, *.br everything below br, * all; empty: the roots' hosts
scope.include | Only these URLs | one pattern per line, such as http*://www.a.br/news/*; empty: all on those hosts
scope.exclude | Not these URLs | one pattern per line, such as */login*
scope.types | Types of documents | MIME types, one per line; the rest is not fetched
scope.size_max | Largest document | such as 2 MB; what is larger is cut
scope.depth_max | Depth | the most clicks from where it begins; 0: only the roots; empty: no limit
scope.pages_max | Pages | the most pages to keep; empty: no limit
scope.requests_max | Visits | the most visits, kept or not; empty: no limit
scope.host_pages_max | Visits of one host | the most
scope.site_hosts_max | Hosts of one site | the most; some domains have names without end
scope.copies_max | Copies of a text | more URLs of a host with the very same text are not kept
scope.alike_max | Texts alike | the same for texts that differ in numbers only, such as calendars
scope.languages | Languages | codes such as pt, one per line: only pages in these are kept; empty: all
scope.beyond | Look beyond the hosts | with languages: what kept pages link to elsewhere is looked at, too
scope.keep | Keep | all pages, or only those that carry structured data
scope.vocabularies | Vocabularies | with structured data: only pages with one of these, such as schema; one per line
politeness.delay | Pause | between the end of an answer and the next request to the same host, such as 1 s
politeness.delays | Pauses of some hosts | one per line: pattern = pause, such as *.a.br = 5 s
politeness.delay_factor | Pause by duration | and no sooner than so many times the last answer's duration
politeness.delay_max | Longest pause | the most that a Crawl-delay or a slow answer may ask for
politeness.backoff | Pause after a failure | doubles with each failure, up to a day
politeness.per_ip | One host per address | hosts that share an IP address are treated as one
politeness.robots | robots.txt | ignore it only on hosts of your own
politeness.user_agent | Our name | what the crawler calls itself; webmasters see it
politeness.contact | Contact | a page or an address where webmasters reach you; sent with every request
politeness.email | E-mail | sent with every request as From
fetch.time_max | Longest transfer | such as 10 min
fetch.connect_timeout | Time to connect | such as 20 s
fetch.stall_timeout | Longest silence | a transfer that brings nothing for so long is given up
fetch.hosts_at_once | Hosts at once | that one worker visits
fetch.redirects_max | Redirects | the longest chain
fetch.retries | Retries | of a URL, after a failure that may pass
fetch.host_failures_max | Failures of a host | in a row, with pauses between them; then it is given up
fetch.bandwidth | Bandwidth | bytes a second in all, such as 2 MB; empty: no limit
fetch.host_bandwidth | Bandwidth of one host | bytes a second, such as 200 KB; empty: no limit
fetch.sitemaps | Sitemaps | follow those that robots.txt announces
fetch.feeds | Feeds | follow the RSS and Atom feeds that pages announce
strategy.order | Order | which new URLs are visited first
strategy.favour | First | host patterns, one per line, that are visited before others
strategy.penalise | Last | URL patterns, one per line, that are visited after others
strategy.table_max | Sites in the table | of breadth: the most
strategy.cycle | Sites of a cycle | of breadth: how many are chosen at a time
strategy.weights.length | Weight of length | of breadth: what a short URL is worth
strategy.weights.block | Weight of blocks | of breadth: what few steps in the path are worth
strategy.weights.favour | Weight of favour | of breadth: what a favoured host is worth
strategy.weights.penalty | Weight of penalty | of breadth: what a penalised URL costs
revisit.policy | Keep fresh | how it is decided when a page is visited again; never: it is crawled once
revisit.rate | Revisits a day | the most; empty: what politeness allows
revisit.share | Share of revisits | of a host's visits, while new URLs wait there; more than 0, at most 1
revisit.horizon | Horizon | of the policies that plan: psp, mp2, m-wolf
revisit.interval_min | Shortest interval | between two visits of a page
revisit.grace | Grace | a page that is gone is asked for once more after so long
revisit.weigh | Pages count by | their in-links, their rank, or all the same
schedule.start | Start | not before this date and time, such as 2026-12-01 or 2026-12-01T03:00
schedule.deadline | Deadline | not after this date and time, such as 2026-12-31 or 2026-12-31T23:59
schedule.every | Repeat | daily, 7 days, 6 hours, or five fields as cron has them, such as 0 3 * * 1
schedule.timezone | Time zone | of these dates, such as America/Sao_Paulo
notify.webhook | Webhook | an http or https address that hears of it
notify.email | E-mail to | one address per line
notify.events | Tell when it has | what is worth telling
notify.stalled | Stalled after | so long without a visit, though it runs
network.connect_to | Connect to | one per line: pattern = address:port, such as *.test = 127.0.0.1:8090
network.allow_private | Private addresses | visit hosts that are not on the public Internet
network.tls | Certificates | strict, or accept bad ones and note what was wrong
network.suffixes | Domain suffixes | beside those of the public list, one per line
network.dns | Name servers | instead of the system's, one address per line, such as 9.9.9.9 or 9.9.9.9:5353
network.proxy | Proxy | whom all requests go through, such as http://proxy:3128 or socks5h://localhost:1080
identity.fold_case | Ignore case in paths | fixed when the collection is created
identity.strip_slash | Ignore a slash at the end | fixed when the collection is created
""")

ENGLISH = Words(
    code="en",
    sections=pairs("""
     | Collection
scope | What belongs to it
politeness | How gently
fetch | Limits of a transfer
strategy | What comes first
revisit | When to come back
schedule | When it runs
notify | Who hears of it
network | Network
identity | Which URLs are the same page
"""),
    fields=FIELDS,
    choices=pairs("""
scope.keep all | all pages
scope.keep structured | only pages with RDFa, JSON-LD or microdata
politeness.robots obey | obey
politeness.robots ignore | ignore
strategy.order breadth | breadth: new sites first
strategy.order backlinks | what most pages link to
strategy.order fifo | what was found first
strategy.order lifo | what was found last
strategy.order random | any
revisit.policy index | what is worth most now
revisit.policy psp | plan: psp
revisit.policy mp2 | plan: mp2
revisit.policy m-wolf | plan: m-wolf
revisit.policy uniform | all equally often
revisit.policy proportional | as often as it changes
revisit.policy rateupdate | by the rate that was seen
revisit.policy never | never
revisit.weigh links | their in-links
revisit.weigh rank | their rank
revisit.weigh equal | all the same
network.tls strict | strict
network.tls accept | accept, and note
notify.events started | started
notify.events finished | finished
notify.events failed | failed
notify.events stalled | stalled
"""),
    notes=pairs("""
robots | robots.txt is not asked for in a dry run: it may still forbid a page
no robots | robots.txt is not obeyed in this collection
depth | how deep a URL lies is not known before the crawl: beyond depth_max = {} it is out
limits | once the limits are reached ({}) nothing more is fetched, in or out
kept | whether a page is kept, its content decides: its language, its data
"""),
    estimate=pairs("""
nothing | there is nothing to visit
bound host | bound by the pauses of the largest host, {host}
bound side by side | bound by the pauses of its hosts, visited side by side
bound places | bound by the places for hosts: {places} are visited at once
bound bandwidth | bound by [fetch] bandwidth = {bandwidth} bytes a second
bound workers | bound by what the workers can do ({workers})
ends | it ends at {ends}
met | hosts met before: {met}, with {met_pages} pages
unmet | hosts never met: {unmet}; each may have {low}, probably {likely}, perhaps {high} pages
unmet breadth | hosts never met: {unmet}; of each site {low}, probably {likely}, perhaps {high} pages are walked
unfinished | some of the hosts are not crawled to their end: what waits there is as often a page as what was visited
narrower | the hosts were crawled under another scope: how many of their pages belong to this one is not known
open | more hosts may belong to it than are known: how many, nobody can say; pages_max sets an end
crawled before | these roots and this scope were crawled to their end before: no host is missing
delay | {delay} s between two requests to a host, and {factor} times the duration of an answer
crawl-delay | hosts that ask for a longer pause: {slowed}, up to {longest} s
answer | an answer takes {answer} s, perhaps {slow} times as long
answer measured | an answer takes {answer} s, as measured here; perhaps {slow} times as long
size | a page has {size} bytes when it is transferred ({sizes})
size measured | a page has {size} bytes when it is transferred, as measured here
kept | a page takes {kept} bytes on the disk beside what was transferred: text, index, graph, frontier
kept measured | a page takes {kept} bytes on the disk in all, as measured here
workers | workers: {workers}, each with at most {rate} requests a second; hosts do not share addresses
fresh | this is the first pass: afterwards pages are visited again for as long as it runs
again | this is one run: it is repeated ({every})
"""),
)
