"""A small crawl with known answers: three sites, several servers and languages, links, entities, failures."""

from tarrafa.archive.warc_writer import WarcExchange, WarcWriter, sha1_digest
from tarrafa.captures import follower
from tarrafa.model import HostNote, Link, Outcome, Page, PageDate, RobotsMeta, UsageStatement, VisitRecord
from tarrafa.runtime.data_dir import DataDirectory
from tests.captures.archived_site import DAY_S, FIRST_AT

NEWS, SHOP, LAB = "https://www.news.com.br", "http://shop.com.br", "https://lab.org"
EVENT = "<http://shop.com.br/#fair> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://schema.org/Event> .\n"
NAMED = EVENT + '<http://shop.com.br/#fair> <http://schema.org/name> "Boat fair" .\n'
AGAINST_TRAINING = (UsageStatement("robots.txt", "Content-Signal: ai-train=no", ("ai-train",)),)
YEAR_2024, YEAR_2026 = 1_717_200_000, 1_780_000_000


class SmallCrawl:
    """Writes visits; each call of `page` is a visit."""

    def __init__(self, data: DataDirectory, worker: str = "w1") -> None:
        self.data, self.writer, self._visits = data, WarcWriter(data.archive, worker, FIRST_AT), 0

    def page(
        self,
        url: str,
        text: str,
        *links: str,
        language: str = "pt",
        server: str = "nginx/1.2",
        day: int = 0,
        collection: str = "br",
        published: int = 0,
        statements: str = "",
        usage: tuple[UsageStatement, ...] = (),
        noarchive: bool = False,
    ) -> None:
        self._visits += 1
        at, body = FIRST_AT + day * DAY_S + self._visits, f"<p>{text}</p>".encode("utf-8", "replace")
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nServer: {server}\r\n\r\n".encode()
        found = Page(
            url, text.split(maxsplit=1)[0], text, links=tuple(Link(link, "to it") for link in links), language=language,
            statements=statements, usage=usage, robots=RobotsMeta(noarchive=noarchive),
            published=PageDate(published, "meta") if published else None,
        )  # fmt: skip
        exchange = WarcExchange(url, at, b"GET / HTTP/1.1\r\n\r\n", head + body, len(head), payload=sha1_digest(body))
        outcome = Outcome(200, at, kept=True, type="text/html", length=len(body), server=server)
        self.writer.append(VisitRecord(collection, url, self._visits, 1, outcome, page=found), exchange)

    def failure(self, url: str, status: int) -> None:
        self._visits += 1
        self.writer.append(VisitRecord("br", url, self._visits, 1, Outcome(status, FIRST_AT + self._visits)), None)

    def robots(self, host: str, status: int) -> None:
        note = HostNote("br", host, 0, 2.5, (f"{host}/sitemap.xml",), status, 0.0, b"User-agent: *")
        self.writer.append_note(note, FIRST_AT)

    def commit(self) -> None:
        """Make the visits so far durable."""
        self.writer.prepare_commit()()
        follower.catch_up(self.data)

    def write_all(self) -> None:
        """The crawl to which the ten questions have known answers."""
        self.robots(f"{NEWS}:443", 200)
        self.page(f"{NEWS}/", "capa das notícias", f"{NEWS}/a", f"{SHOP}/", f"{LAB}/", usage=AGAINST_TRAINING)
        self.page(f"{NEWS}/a", "notícia antiga", published=YEAR_2024, usage=AGAINST_TRAINING)
        self.page(f"{NEWS}/a", "notícia nova de hoje", f"{LAB}/x", published=YEAR_2024, day=1)
        self.page(f"{SHOP}/", "loja de barcos", f"{NEWS}/", f"{NEWS}/a", server="Apache", statements=NAMED)
        self.page(f"{SHOP}/b", "barco", server="Apache", published=YEAR_2026, statements=EVENT)
        self.page(f"{LAB}/", "the lab of nets", f"{NEWS}/", language="en", server="", statements=EVENT)
        self.failure(f"{NEWS}/gone", 404)
        self.failure(f"{SHOP}/gone", 404)
        self.failure("http://dead.com.br/", -12)
        self.commit()
