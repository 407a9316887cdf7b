"""Filter of known facts: drops discovered URLs and weights that change nothing, before any lock is taken.

Most are not, and what changes nothing needs no lock: so they are told apart before anything is locked.
"""

from tarrafa.frontier.messages import RANK_STEP, DiscoveredUrl, UrlWeight
from tarrafa.frontier.postgres.working_copy import Cursor
from tarrafa.frontier.store.schema import SWEPT
from tarrafa.model import Status, UrlState


def filter_new_urls(cursor: Cursor, collection: int, offers: list[DiscoveredUrl]) -> list[DiscoveredUrl]:
    """Most links lead to what is known at no greater depth."""
    rows = cursor.execute(
        "SELECT k.n FROM unnest(%b::bigint[], %b::bytea[], %b::bigint[], %b::bigint[], %b::bigint[], %b::float8[])"
        " WITH ORDINALITY AS k(host, id, depth, redirects, role, announced, n)"
        " JOIN url u ON u.host = k.host AND u.collection = %b::bigint AND u.id = k.id"
        " WHERE (u.depth, u.redirects) <= (k.depth, k.redirects) AND (k.role = u.role OR u.role != 0)"
        " AND k.announced <= coalesce(u.announced, 0) AND u.shown != %b::bigint"
        " AND u.run >= (SELECT run FROM collection WHERE id = u.collection)"
        " AND (u.state != %b::bigint OR u.status IS DISTINCT FROM %b::bigint)",
        [
            [offer.host for offer in offers],
            [offer.id for offer in offers],
            [offer.depth for offer in offers],
            [offer.redirects for offer in offers],
            [offer.role for offer in offers],
            [float(offer.announced) for offer in offers],
            collection,
            SWEPT,
            int(UrlState.DROPPED),
            int(Status.NOT_FOUND_AGAIN),
        ],
    ).fetchall()
    known = {number - 1 for (number,) in rows}
    return [offer for place, offer in enumerate(offers) if place not in known]


def filter_new_weights(cursor: Cursor, collection: int, weights: list[UrlWeight]) -> list[UrlWeight]:
    """In-links and depths count when they differ, ranks when they differ by much."""
    rows = cursor.execute(
        "SELECT k.n FROM unnest(%b::bigint[], %b::bytea[], %b::bigint[], %b::bigint[], %b::float8[])"
        " WITH ORDINALITY AS k(host, id, in_links, depth, rank, n)"
        " JOIN url u ON u.host = k.host AND u.collection = %b::bigint AND u.id = k.id"
        " WHERE u.in_links != k.in_links OR k.depth >= 0 AND k.depth < u.depth OR k.rank > 0 AND"
        f" k.rank / coalesce(nullif(u.pagerank, 0), 1) NOT BETWEEN {1 / RANK_STEP} AND {RANK_STEP}",
        [
            [weight.host for weight in weights],
            [weight.id for weight in weights],
            [weight.in_links for weight in weights],
            [weight.depth for weight in weights],
            [weight.rank for weight in weights],
            collection,
        ],
    ).fetchall()
    return [weights[number - 1] for (number,) in rows]
