"""Renders robots.txt and sitemaps of a host of the synthetic Web.

Promises: `is_allowed` and the text of robots.txt agree (a test checks them with a real robots parser). The sitemap
lists every page of the host except the private ones, orphans included, with the true date of its last change.
Knows nothing of HTTP.
"""

from datetime import UTC, datetime

from tarrafa.testweb.world.change_model import version_at
from tarrafa.testweb.world.hosts import UrlForm, WebHost, World
from tarrafa.testweb.world.resources import (
    SITEMAP_URLS_MAX,
    PageRole,
    Resource,
    ResourceKind,
    file_extension,
    link_target,
    page_attributes,
    path_of,
    role_of,
    sitemap_parts,
)
from tarrafa.testweb.world.url_variants import canonical_url


def is_allowed(world: World, resource: Resource) -> bool:
    """Whether robots.txt allows a resource to a crawler that it does not mention by name."""
    host = world.host(resource.no)
    if resource.kind is ResourceKind.PAGE:
        return not (host.robots.private and role_of(host, resource.n) is PageRole.PRIVATE)
    if resource.kind is ResourceKind.PRINT:
        return not host.robots.prints
    if resource.kind is ResourceKind.FILE and host.robots.archives:
        return file_extension(link_target(world, resource.no, resource.n).bits) != "zip"
    return True


def announces_sitemap(host: WebHost) -> bool:
    return host.robots.present and host.robots.private


def robots_txt(world: World, host: WebHost, form: UrlForm) -> bytes | None:
    """The file, or None if the host has none. Files with wildcards also have CRLF and a byte order mark, as some sites
    do.
    """
    rules, words = host.robots, host.path_words
    if not rules.present:
        return None
    lines = ["# " + host.name]
    if rules.archives:
        lines += ["User-agent: BadBot", "User-agent: WorseBot", "Disallow: /", ""]
    lines += ["User-agent: *"]
    if rules.private:
        lines += [f"Disallow: /{words.private}/", f"Allow: /{words.private}/{words.public}/"]
    if rules.prints:
        lines += [f"Disallow: /*?{words.print}=  # no doubles, please", f"Disallow: /*&{words.print}="]
    if rules.archives:
        lines += ["Disallow: /*.zip$"]
    if not rules.private:
        lines += ["Disallow:"]
    if rules.crawl_delay_s:
        lines += [f"Crawl-delay: {rules.crawl_delay_s:g}"]
    if announces_sitemap(host):
        lines += ["", f"Sitemap: {canonical_url(world, form, host.no, '/sitemap.xml')}"]
    if rules.prints:
        return b"\xef\xbb\xbf" + "\r\n".join([*lines, ""]).encode()
    return "\n".join([*lines, ""]).encode()


def sitemap_pages(host: WebHost, part: int) -> list[int]:
    """The pages in one file of the sitemap; part 0 is the only file."""
    first = (part - 1) * SITEMAP_URLS_MAX if part else 0
    return [
        n for n in range(first, min(first + SITEMAP_URLS_MAX, host.pages)) if role_of(host, n) is not PageRole.PRIVATE
    ]


def sitemap(world: World, host: WebHost, part: int, form: UrlForm, now: float) -> bytes:
    schema = "http://www.sitemaps.org/schemas/sitemap/0.9"
    lines = ['<?xml version="1.0" encoding="UTF-8"?>']
    if part == 0 and (parts := sitemap_parts(host)):
        lines.append(f'<sitemapindex xmlns="{schema}">')
        for number in range(1, parts + 1):
            place = canonical_url(world, form, host.no, path_of(world, Resource(ResourceKind.SITEMAP, host.no, number)))
            lines.append(f"<sitemap><loc>{place}</loc></sitemap>")
        return "\n".join([*lines, "</sitemapindex>", ""]).encode()
    lines.append(f'<urlset xmlns="{schema}">')
    for n in sitemap_pages(host, part):
        since = version_at(world, host.no, n, page_attributes(world, host.no, n).changes_per_day, now).since
        place = canonical_url(world, form, host.no, link_target(world, host.no, n).path)
        lines.append(
            f"<url><loc>{place}</loc><lastmod>{datetime.fromtimestamp(since, UTC).isoformat()}</lastmod></url>"
        )
    return "\n".join([*lines, "</urlset>", ""]).encode()
