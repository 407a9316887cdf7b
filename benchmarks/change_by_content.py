"""What does `[revisit] change = "content"` do to the changes that are seen, and to the change rates learned of them?

    python benchmarks/change_by_content.py

150 articles of the real texts below stand in three designs, with what moves on real pages without being news: a visitor
counter, today's date, the newest posts, a quote of the day, related articles, the number of comments. Each article has
a change rate of its own (once in 4 to 60 days) and is visited every day for 60 days. A visit sees a change by the text
or by the main content, as the product computes both; the estimator of the product learns a rate of each. Everything is
derived from one seed.
The articles are those of the conformance data (see tests/conformance_data.py): 91 texts, some of them twice.
"""

import json
import random
import statistics
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.conformance_data import CONFORMANCE_DIR

from tarrafa.model import Page
from tarrafa.parse.fingerprint import compared_id
from tarrafa.parse.page import parse
from tarrafa.revisit import believe
from tarrafa.revisit.change_rate import DAY_S

PAGES, DAYS, SEED = 150, 60, 21
SETTINGS = ("text", "content")


class Article(NamedTuple):
    title: str
    paragraphs: list[str]
    rate: float  # changes a day


def main() -> None:
    truth = CONFORMANCE_DIR / "content" / "ground-truth.json"
    if not truth.exists():
        sys.exit(f"{truth}: the conformance data is absent; set TARRAFA_CONFORMANCE to where it is")
    bodies = [one["articleBody"] for one in json.loads(truth.read_text(encoding="utf-8")).values()]
    rng = random.Random(SEED)
    counts = {setting: Counter[str]() for setting in SETTINGS}
    ratios: dict[str, list[float]] = {setting: [] for setting in SETTINGS}
    for number in range(PAGES):
        paragraphs = [line for line in bodies[number % len(bodies)].split("\n") if line.strip()]
        article = Article(f"Article {number}", paragraphs, 1 / rng.uniform(4, 60))
        _visit_daily(article, number, rng, counts, ratios)
    print(f"{'':8} {'false changes':>14} {'missed':>8} {'learned rate / true, median':>28} {'mean':>6}")
    for setting in SETTINGS:
        seen = counts[setting]
        print(
            f"{setting:8} {seen['false'] / seen['quiet']:14.1%} {seen['missed'] / seen['changes']:8.1%}"
            f" {statistics.median(ratios[setting]):28.2f} {statistics.mean(ratios[setting]):6.2f}"
        )


def _visit_daily(
    article: Article,
    number: int,
    rng: random.Random,
    counts: dict[str, Counter[str]],
    ratios: dict[str, list[float]],
) -> None:
    observations: dict[str, list[tuple[float, bool]]] = {setting: [] for setting in SETTINGS}
    before = _ids(_page(article, number, 0))
    changes = 0
    for day in range(1, DAYS + 1):
        is_changed = rng.random() < article.rate
        if is_changed:
            changes += 1
            place = rng.randrange(len(article.paragraphs))
            article.paragraphs[place] += f" Updated on day {day}."
        now = _ids(_page(article, number, day))
        for setting in SETTINGS:
            is_seen = now[setting] != before[setting]
            counts[setting]["changes" if is_changed else "quiet"] += 1
            counts[setting]["false"] += is_seen and not is_changed
            counts[setting]["missed"] += is_changed and not is_seen
            observations[setting].append((DAY_S, is_seen))
        before = now
    for setting, seen in observations.items():
        ratios[setting].append(believe(seen)[0] * DAY_S / (max(changes, 0.5) / DAYS))


def _ids(page: Page) -> dict[str, str]:
    return {setting: compared_id(page, setting) for setting in SETTINGS}


def _page(article: Article, number: int, day: int) -> Page:
    """The page as of a day. What moves depends on page and day only."""
    rng = random.Random(f"{number} {day}")
    body = "".join(f"<p>{line}</p>" for line in article.paragraphs)
    newest = "".join(f"<li><a href=/n{day - back}>The news of day {day - back}</a></li>" for back in range(6))
    related = "".join(f"<li><a href=/a{one}>Article {one}</a></li>" for one in rng.sample(range(PAGES), 4))
    counter, quote = f"<p>Visitors: {1000 + 37 * day + number}</p>", f"<p>Quote: number {rng.randrange(300)} wins.</p>"
    today = f"<div>Today is day {day} of the year</div>"
    comments = f"<div class=comments><p>{3 + day // 4} comments</p></div>"
    designs = (
        f"<nav>Home {today}</nav><main><h1>{article.title}</h1>{body}</main><aside>{newest}{counter}</aside>{comments}",
        f"{today}<div class=left><ul>{newest}</ul>{counter}{quote}</div><div class=post>{body}</div><ul>{related}</ul>",
        f"<table><tr><td>{counter}</td></tr></table><article>{body}<ul>{related}</ul></article><footer>{today}</footer>",
    )
    markup = f"<!DOCTYPE html><title>{article.title}</title><body>{designs[number % len(designs)]}"
    return parse(markup.encode(), f"http://h.test/a{number}", "text/html; charset=utf-8")


if __name__ == "__main__":
    main()
