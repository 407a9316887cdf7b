"""What a worker knows of what people decided."""

from tarrafa.crawl.news import News
from tarrafa.frontier.protocol import Standing


def test_what_was_heard_before_a_walk_began_says_nothing_about_it():
    news = News()
    assert not news.rests(1, 0.0)
    news.hear([Standing(1, "paused", 1), Standing(2, "running", 1)], 10.0)
    assert news.rests(1, 9.0)
    assert not news.rests(1, 10.0), "it was leased since: somebody resumed it"
    assert not news.rests(2, 9.0)
    assert news.rests(3, 9.0), "it was deleted"
    assert not news.rests(3, 11.0), "it was made since"


def test_a_later_revision_is_news_and_an_unknown_collection_is_none():
    news = News()
    news.hear([Standing(1, "running", 3)], 10.0)
    assert news.is_newer(1, 2)
    assert not news.is_newer(1, 3)
    assert not news.is_newer(2, 0)
    assert not news.differs({1: 3})
    assert not news.differs({2: 7})
    assert news.differs({1: 4, 2: 7})
