"""Console page and REST routes of one status of a collection: its meaning, its URLs, what helps, retry all.

An HTTP status without help of its own has that of its class (2xx, 3xx, 4xx, 5xx).
"""

from typing import Literal, NamedTuple

import msgspec
from starlette.responses import Response

from tarrafa.coordinator.failures import FailureDetail, Failures, RetryResponse
from tarrafa.i18n import Message, message
from tarrafa.model import Status
from tarrafa.server.api.api_route import ApiRoute
from tarrafa.server.auth.required_role import AccessLevel, GuardedRoute
from tarrafa.server.auth.role_and_csrf_guard import ConsoleRequest
from tarrafa.server.error_status import RequestRefused
from tarrafa.server.search.params import address

PAGE_PATH, API_ROUTE = "/console/c/{name}/status/{status}", "/collections/{name}/statuses/{status}"
AUDIT_ACTION = "act on a status"
DIGITS_MAX = 9


class StatusActionRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An action on all URLs with the status."""

    action: Literal["retry"]


class FailedUrlPages:
    """The pages about statuses, and the routes."""

    def __init__(self, failures: Failures) -> None:
        self._failures = failures

    def guarded_routes(self) -> list[GuardedRoute]:
        return [
            GuardedRoute("GET", f"{PAGE_PATH}.json", AccessLevel.VIEWER, self.page_json),
            GuardedRoute("GET", PAGE_PATH, AccessLevel.VIEWER, self.page),
            GuardedRoute("POST", f"{PAGE_PATH}/act", AccessLevel.ADMIN, self.retry_from_form, AUDIT_ACTION),
        ]

    def api_routes(self) -> list[ApiRoute]:
        view, admin, at = AccessLevel.VIEWER, AccessLevel.ADMIN, API_ROUTE
        return [
            ApiRoute("GET", at, message("URLs with one status"), view, self.get_status),
            ApiRoute(
                "POST", f"{at}/actions", message("Retry all URLs with one status"), admin, self.retry, AUDIT_ACTION
            ),
        ]

    async def page(self, request: ConsoleRequest) -> Response:
        failure, params = await self._failed_urls(request), request.http.query_params
        retried = params.get("retried", "")
        return request.html(
            "console/failed_urls.html", section="/console", failure=failure,
            helping=help_with(failure.counted.status),
            errors={seen.url: seen.error for seen in failure.seen if seen.error},
            retried=int(retried) if retried.isdecimal() and len(retried) <= DIGITS_MAX else None,
            more=bool(params.get("more")),
        )  # fmt: skip

    async def page_json(self, request: ConsoleRequest) -> Response:
        return request.json(await self._failed_urls(request))

    async def retry_from_form(self, request: ConsoleRequest) -> Response:
        if request.form.get("action") != "retry":
            raise RequestRefused(400, message("there is no such action"))
        done = await self._retry_all(request)
        here = f"/console/c/{request.param('name')}/status/{request.param('status')}"  # both exist
        return request.redirect(address(here, retried=str(done.urls), more="1" if done.more else ""))

    async def get_status(self, request: ConsoleRequest) -> FailureDetail:
        return await self._failed_urls(request)

    async def retry(self, request: ConsoleRequest, body: StatusActionRequest) -> RetryResponse:
        return await self._retry_all(request)

    async def _failed_urls(self, request: ConsoleRequest) -> FailureDetail:
        return await self._failures.describe(request.param("name"), request.param("status"))

    async def _retry_all(self, request: ConsoleRequest) -> RetryResponse:
        name, status = request.param("name"), request.param("status")
        request.audit_note(name, f"retry {status}")
        done = await self._failures.retry(name, status, request.principal.name)
        request.audit_note(name, f"retry {status}: {done.urls:,} URLs{' and more' if done.more else ''}")
        return done


class StatusHelp(NamedTuple):
    """`helps` is empty where there is nothing to be done."""

    means: Message
    helps: Message | str = ""


HELP_BY_STATUS: dict[int, StatusHelp] = {
    304: StatusHelp(message("The page is as it was at the last visit; the server did not send it again.")),
    401: StatusHelp(
        message("The server wants to know who asks."),
        message(
            "If you may enter, give the collection a user and password under Secrets, then retry; else exclude it."
        ),
    ),
    403: StatusHelp(
        message("The server forbids this page to us."),
        message(
            "A few are usual. If a host answers nothing else, it may have shut us out: lengthen its "
            "pause, and ask its webmaster before you retry."
        ),
    ),
    404: StatusHelp(
        message("There is no such page: the link that led there is dead."),
        message("Nothing; every web has some. If a site was being rebuilt when we came, retry."),
    ),
    410: StatusHelp(
        message("The page is gone for good, says its server."), message("Nothing: it is right to leave it.")
    ),
    429: StatusHelp(
        message("The server says that we ask too often; its host rests."),
        message("Give its hosts a longer pause (look one up, or set [politeness] delays). Do not retry before."),
    ),
    503: StatusHelp(
        message("The server is busy or being repaired; its host rests for a while."),
        message("Time. If it does not pass, give those hosts a longer pause; retry when they are well again."),
    ),
    Status.INVALID_RESPONSE: StatusHelp(
        message("What came back is no HTTP, or cannot be decoded."),
        message(
            "Look at the samples' errors: mostly a port that serves something else, or a broken "
            "compression. Exclude such a host, or tell its webmaster."
        ),
    ),
    Status.TYPE_NOT_WANTED: StatusHelp(
        message("The answer's type is not among those that the collection takes; it was cut at the header."),
        message("If you want such documents, name their type in [scope] types, then retry."),
    ),
    Status.TOO_LARGE: StatusHelp(
        message("The document is larger than the collection takes."),
        message("If you want it, raise [scope] size_max, then retry."),
    ),
    Status.ROBOTS: StatusHelp(
        message("The host's robots.txt asks us not to visit it, and we do not."),
        message("Only the webmaster can change that. Look a URL up to see the line that decides."),
    ),
    Status.TOO_SLOW: StatusHelp(
        message("The answer did not come in time."),
        message(
            "Time, and a longer pause for hosts that have most of them. If all hosts are slow, our own "
            "line may be full: look at the nodes."
        ),
    ),
    Status.SYSTEM_ERROR: StatusHelp(
        message("No connection: refused, reset, or the host cannot be reached."),
        message("If one host has them, it is down: retry when it is back. If all have them, look at our own network."),
    ),
    Status.NAME_UNKNOWN: StatusHelp(
        message("The host's name leads nowhere."),
        message(
            "Mostly links to sites that are gone: nothing to do. If names that exist fail, look at the "
            "name server of our machines, then retry."
        ),
    ),
    Status.HOST_GIVEN_UP: StatusHelp(
        message("Not asked for: its host had failed too often in a row."),
        message("Look up the hosts below for what went wrong; retry when they are well again."),
    ),
    Status.ADDRESS_REFUSED: StatusHelp(
        message("The name leads to an address that we never visit, such as one of a private network."),
        message("If you mean such a network, set [network] allow_private; else it is right so."),
    ),
    Status.TLS_ERROR: StatusHelp(
        message("No secure connection came about: mostly a certificate that is out of date or names another host."),
        message("Tell the webmaster. If you trust these sites all the same, change [network] tls, then retry."),
    ),
    Status.REDIRECTS_EXCEEDED: StatusHelp(
        message("One address led to the next, and that to the next: too many times."),
        message(
            "Mostly a circle, often one that wants a cookie. Look at a sample in a browser; retry if it was mended."
        ),
    ),
    Status.TRAP: StatusHelp(
        message("Not asked for: by its looks, or by what came of others like it, there is no end to such pages."),
        message("Look some up. If they are good pages, raise [scope] copies_max and alike_max: they are judged again."),
    ),
    Status.HOST_FULL: StatusHelp(
        message("Not asked for: its host, or its site, has reached the collection's cap."),
        message("If you want more of it, raise [scope] host_pages_max or site_hosts_max; they are then judged again."),
    ),
    Status.LANGUAGE_NOT_WANTED: StatusHelp(
        message("Fetched, and in none of the collection's languages."),
        message("If you want it, add its language to [scope] languages, then retry."),
    ),
    Status.OUT_OF_SCOPE: StatusHelp(
        message("It waited, and the collection no longer wants it."),
        message("A change of [scope] has it judged again."),
    ),
    Status.COPY: StatusHelp(
        message("Fetched: it says the same as many other URLs of its host."),
        message(
            "Mostly right: an error page that calls itself a page, or a session in the URL. To keep more "
            "of them raise [scope] copies_max, then retry."
        ),
    ),
    Status.REPLACED: StatusHelp(
        message("It was kept, and gave its place to a more important page: the collection is full."),
        message("Raise [scope] pages_max to keep more."),
    ),
    Status.LANGUAGE_OUTSIDE: StatusHelp(
        message("Outside the scope; fetched because a kept page links to it, and in no wanted language."),
        message("Nothing: that is how such a collection finds its borders."),
    ),
    Status.TAKEN_DOWN: StatusHelp(
        message("Those who run this engine have taken it down."), message("`tarrafa takedown list` says who and why.")
    ),
    Status.NOT_STRUCTURED: StatusHelp(
        message("Fetched, and without data of the kind that the collection keeps."),
        message("Nothing; [scope] keep says what is kept."),
    ),
    Status.NOT_FOUND_AGAIN: StatusHelp(
        message("An earlier run kept it, and the last one met no way to it: it left the search."),
        message("Nothing, if the site changed. If it is still there, name it among the roots."),
    ),
    Status.HOSTILE: StatusHelp(
        message("Reading it cost more than one page may: it was put away."),
        message("Look at a sample with care. Retry only if the page was mended."),
    ),
    Status.STARVED: StatusHelp(
        message("The time was over because our own machine could not keep up; nobody else is to blame."),
        message("Look at the nodes: fewer hosts at once, or one more machine. It is tried again by itself."),
    ),
}
HELP_BY_CLASS = {
    2: StatusHelp(message("The server gave the page.")),
    3: StatusHelp(
        message("The server names another address, which is visited in its place."),
        message(
            "Usually nothing. If a whole site has moved, name its new address among the roots, and in [scope] hosts."
        ),
    ),
    4: StatusHelp(
        message("The server does not give this page to us."),
        message(
            "Look at some samples in a browser. If they open there, the server treats crawlers "
            "otherwise: see that the user agent names a contact, and ask its webmaster."
        ),
    ),
    5: StatusHelp(
        message("Something is broken at the server."),
        message(
            "Mostly time: the URL is tried again, later each time. If one host has nearly all of them, "
            "give it a longer pause; when it is well again, retry."
        ),
    ),
}
UNKNOWN = StatusHelp(message("An answer that no standard knows."), message("Look at some samples."))


def help_with(status: int) -> StatusHelp:
    return HELP_BY_STATUS.get(status) or HELP_BY_CLASS.get(status // 100, UNKNOWN)
