"""What a worker knows of what people decided."""

from tarrafa.crawl.worker.collection_state import CollectionStates
from tarrafa.frontier.messages import FrontierCollectionState


def test_what_was_heard_before_a_walk_began_says_nothing_about_it():
    news = CollectionStates()
    assert not news.is_suspended(1, 0.0)
    news.update([FrontierCollectionState(1, "paused", 1), FrontierCollectionState(2, "running", 1)], 10.0)
    assert news.is_suspended(1, 9.0)
    assert not news.is_suspended(1, 10.0), "it was leased since: somebody resumed it"
    assert not news.is_suspended(2, 9.0)
    assert news.is_suspended(3, 9.0), "it was deleted"
    assert not news.is_suspended(3, 11.0), "it was made since"


def test_a_later_revision_is_news_and_an_unknown_collection_is_none():
    news = CollectionStates()
    news.update([FrontierCollectionState(1, "running", 3)], 10.0)
    assert news.has_newer_revision(1, 2)
    assert not news.has_newer_revision(1, 3)
    assert not news.has_newer_revision(2, 0)
    assert not news.any_revision_differs({1: 3})
    assert not news.any_revision_differs({2: 7})
    assert news.any_revision_differs({1: 4, 2: 7})
