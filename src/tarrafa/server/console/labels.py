"""Labels of the states, actions and kinds that console pages show."""

from tarrafa.i18n import message
from tarrafa.model import COLLECTION_STATES

STATES = COLLECTION_STATES | {  # of processes
    "starting": message("starting"),
    "leaving": message("leaving"),
    "dead": message("dead"),
    "silent": message("silent"),
}
URL_STATES = {
    "pending": message("waits for its turn"),
    "handed out": message("with a worker"),
    "fetched": message("kept"),
    "dropped": message("visited, not kept"),
    "failed": message("failed"),
    "excluded": message("excluded by robots.txt"),
    "too deep": message("too deep"),
    "aside": message("of an earlier run, not met yet"),
    "passed over": message("passed over"),
}
SITE_STAGES = {
    "unheard": message("not mentioned yet"),
    "heard": message("mentioned"),
    "listed": message("in the table"),
    "chosen": message("being crawled"),
    "over": message("walked"),
}
ACTIONS = {
    "start": message("Start"),
    "pause": message("Pause"),
    "resume": message("Resume"),
    "retry": message("Try failures again"),
    "stop": message("Stop"),
    "again": message("Run again from the roots"),
    "delete": message("Delete"),
}
STATUS_FATES = {
    "again": message("May pass: such a URL is tried again, as often as the collection's retries say."),
    "unasked": message("Settled without asking the host."),
    "failed": message("Given up; it can be tried again by hand."),
    "moved": message("It leads elsewhere, and that is visited."),
    "had": message("It is kept, if the collection wants such pages."),
    "answered": message("An answer: nothing more comes of it."),
}
CREDENTIAL_KINDS = {
    "header": message("header"),
    "cookie": message("cookie"),
    "basic": message("user and password"),
}
WATCH_KINDS = {
    "page": message("page"),
    "site": message("site or host, with all hosts below it"),
    "query": message("search"),
}
NODE_ROLES = {
    "worker": message("crawls"),
    "follower": message("indexes what it crawled"),
    "search": message("lets others search it"),
}
CHART_SPANS = {
    "15m": message("15 minutes"),
    "3h": message("3 hours"),
    "1d": message("1 day"),
    "30d": message("30 days"),
    "all": message("all"),
}
ACCESS_LEVELS = {
    "OPEN": message("nobody"),
    "VIEWER": message("may see everything"),
    "ADMIN": message("may change everything"),
}
API_NEEDS = {
    "open": message("for everybody"),
    "viewer": message("for viewers"),
    "admin": message("for admins"),
}
AUDIT_ACTIONS = (  # as the audit writes them
    message("act on a collection"),
    message("act on a host"),
    message("act on a status"),
    message("add a watch"),
    message("change a secret"),
    message("change a watch"),
    message("create a collection"),
    message("decide on suggestions"),
    message("edit a collection"),
    message("forget a node"),
    message("make a report"),
    message("order a node"),
    message("remove a watch"),
    message("sign in"),
    message("sign out"),
    message("switch suggestions on or off"),
)
