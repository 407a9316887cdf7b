"""The peer Scrapy: fetches pages and extracts links with its LinkExtractor, nothing more.

Runs in Scrapy's own virtual environment:

    python scrapy_spider.py ROOT REQUESTS_AT_ONCE REQUESTS_PER_HOST

Settings are those of Scrapy's guide to broad crawls where they made it faster here: no cookies, no log, no retries.
robots.txt is obeyed, as by the others.
"""

import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import scrapy
from scrapy.crawler import CrawlerProcess
from scrapy.linkextractors import LinkExtractor
from scrapy.resolver import CachingThreadedResolver
from twisted.internet import defer


class LoopbackResolver(CachingThreadedResolver):  # type: ignore[misc]
    """Every host name is 127.0.0.1."""

    def getHostByName(self, name: str, timeout: Any = None) -> Any:
        return defer.succeed("127.0.0.1")


class LinkSpider(scrapy.Spider):  # type: ignore[misc]
    """Follows every link."""

    name = "links"
    extractor = LinkExtractor()

    async def start(self) -> AsyncIterator[Any]:
        for url in self.start_urls:
            yield scrapy.Request(url)  # filtered, unlike Scrapy's own start requests: the root is fetched once

    def parse(self, response: Any) -> Iterator[Any]:
        for link in self.extractor.extract_links(response):
            yield scrapy.Request(link.url)


if __name__ == "__main__":
    root, at_once, per_host = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    process = CrawlerProcess(
        {
            "AUTOTHROTTLE_ENABLED": False,
            "CONCURRENT_REQUESTS": at_once,
            "CONCURRENT_REQUESTS_PER_DOMAIN": per_host,
            "COOKIES_ENABLED": False,
            "DNS_RESOLVER": LoopbackResolver,
            "DOWNLOAD_DELAY": 0,
            "LOG_ENABLED": False,
            "RETRY_ENABLED": False,
            "ROBOTSTXT_OBEY": True,
            "TELNETCONSOLE_ENABLED": False,
        }
    )
    process.crawl(LinkSpider, start_urls=[root])
    process.start()
