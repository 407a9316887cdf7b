"""A crawl of a blog with the faults of real ones: its posts are kept, dated, named, found and shown right."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tarrafa.archive.warc_reader import Cursor, follow
from tarrafa.model import VisitRecord
from tarrafa.runtime.data_dir import DataDirectory
from tests.journey import blog
from tests.journey.crawl_journey import run_json, tarrafa
from tests.journey.scripted_web import scripted_web

BY_SLUG = {post.slug: post for post in blog.POSTS}


@dataclass
class CrawledBlog:
    data: DataDirectory
    records: dict[str, VisitRecord]

    def search(self, *words: str) -> Any:
        return run_json("search", *words, "--data", self.data.root)

    def first(self, *words: str) -> str:
        return str(self.search(*words)["hits"][0]["url"])

    def hit(self, post: blog.Post) -> Any:
        [found] = [one for one in self.search(f'"{post.title}"')["hits"] if one["url"] == post.url]
        return found


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CrawledBlog]:
    folder = tmp_path_factory.mktemp("blog")
    with scripted_web(blog.answer) as web:
        file = web.collection(folder, [f"{blog.HOST}/"])
        done = tarrafa("crawl", file, "--data", folder / "data", "--workers", "1")
    assert done.returncode == 0, done.stderr
    data = DataDirectory(folder / "data")
    records = {
        entry.record.url: entry.record
        for entry in follow(data.archive, Cursor())
        if isinstance(entry.record, VisitRecord)
    }
    yield CrawledBlog(data, records)


def test_a_refresh_inside_noscript_moves_no_page(crawled: CrawledBlog) -> None:
    kept = {url for url, record in crawled.records.items() if record.outcome.kept}
    assert {post.url for post in blog.POSTS} <= kept
    assert {f"{blog.HOST}/tag/{tag}" for tag in blog.TAGS} <= kept


def test_a_post_with_content_that_refreshes_to_another_page_is_kept(crawled: CrawledBlog) -> None:
    assert crawled.first("bilheteria", "estúdios") == BY_SLUG["placar"].url


def test_the_target_of_a_script_that_moves_the_reader_is_found(crawled: CrawledBlog) -> None:
    assert crawled.first("escondido") == f"{blog.HOST}/escondido"


@pytest.mark.parametrize("post", blog.POSTS, ids=lambda post: post.slug)
def test_the_language_is_that_of_the_text_not_the_declared_one(crawled: CrawledBlog, post: blog.Post) -> None:
    page = crawled.records[post.url].page
    assert page is not None and page.language == post.language


@pytest.mark.parametrize("post", blog.POSTS, ids=lambda post: post.slug)
def test_a_result_is_dated_by_its_byline(crawled: CrawledBlog, post: blog.Post) -> None:
    hit = crawled.hit(post)
    assert (hit["updated"][:10], hit["date_kind"]) == (post.date, "published")


@pytest.mark.parametrize("post", blog.POSTS, ids=lambda post: post.slug)
def test_a_result_has_the_title_without_the_name_of_the_blog(crawled: CrawledBlog, post: blog.Post) -> None:
    assert crawled.hit(post)["title"] == post.title


@pytest.mark.parametrize("query", [("filme", "terror"), ("woody", "allen"), ("legendas",), ("trilha",), ("about",)])
def test_no_snippet_shows_the_menu_once_the_host_is_known(crawled: CrawledBlog, query: tuple[str, ...]) -> None:
    hits = crawled.search(*query)["hits"]
    assert hits
    for hit in hits:
        page = crawled.records[hit["url"]].page
        if page is not None and page.template_spans and page.content:
            assert "Subscribe by email" not in hit["snippet"] and "Powered by" not in hit["snippet"], hit


@pytest.mark.parametrize(
    ("query", "slug"),
    [
        (("filme", "de", "terror"), "casa-velha"),
        (("C++",), "montagem-em-cpp"),
        (("C#",), "legendas-em-csharp"),
        (("woody", "allen", "rio"), "manhattan"),
        (("diane", "keaton"), "noivo-neurotico"),
        (("cópia", "restaurada"), "restauracao"),
        (("memória", "cópias", "dubladas"), "sessao-da-tarde"),
    ],
)
def test_the_post_that_was_meant_comes_first(crawled: CrawledBlog, query: tuple[str, ...], slug: str) -> None:
    assert crawled.first(*query) == BY_SLUG[slug].url


def test_only_pages_with_all_words_are_counted(crawled: CrawledBlog) -> None:
    answer = crawled.search("filme", "de", "terror", "casa")
    assert answer["total"] <= 4, [hit["url"] for hit in answer["hits"]]  # the post, its tag, the front page


@pytest.mark.parametrize("tag", ["comedia", "terror", "oficina"])
def test_a_tag_page_stands_below_the_posts_that_it_lists(crawled: CrawledBlog, tag: str) -> None:
    listed = [post for post in blog.POSTS if tag in post.tags]
    for post in listed:
        urls = [hit["url"] for hit in crawled.search(*post.title.replace(",", "").split())["hits"]]
        tag_url = f"{blog.HOST}/tag/{tag}"
        assert post.url in urls and (tag_url not in urls or urls.index(post.url) < urls.index(tag_url))


def test_a_print_view_is_merged_with_the_page_that_it_names(crawled: CrawledBlog) -> None:
    urls = [hit["url"] for hit in crawled.search("Limite", "Peixoto", "negativo")["hits"]]
    assert urls[0] == BY_SLUG["restauracao"].url and blog.PRINTED not in urls
    assert crawled.records[blog.PRINTED].outcome.kept


def test_the_last_word_is_completed_in_the_light_of_the_one_before(crawled: CrawledBlog) -> None:
    suggested = crawled.search("--suggest", "woody a")
    assert "woody allen" in json.dumps(suggested).lower()


def test_menu_and_sidebar_are_template_once_the_host_is_known(crawled: CrawledBlog) -> None:
    pages = [record.page for record in crawled.records.values() if record.page is not None and record.outcome.kept]
    learned = [page for page in pages if any(blog.SIDEBAR in page.text[a:b] for a, b in page.template_spans)]
    assert len(learned) >= len(pages) // 2
    assert all(blog.SIDEBAR not in page.content for page in learned)
