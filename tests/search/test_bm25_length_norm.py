"""Scores of texts, measured among the texts of one shard and of all."""

import pytest
import tantivy

from tarrafa.search.global_bm25 import MeanLengths, global_score, quantize_length

K1, B = 1.2, 0.75


def bm25(times: int, length: int, mean: float) -> float:
    return 2.2 * times / (times + K1 * (1 - B + B * length / mean))


@pytest.mark.parametrize("times", [1, 2, 9, 40])
@pytest.mark.parametrize("length", [3, 39, 88, 24 + 1_024])
@pytest.mark.parametrize("here, everywhere", [(200.0, 300.0), (300.0, 200.0), (90.0, 900.0)])
def test_a_score_is_what_it_would_be_among_all_texts(times, length, here, everywhere):
    measured = global_score(3 * bm25(times, length, here), 3 * 2.2, MeanLengths(here, everywhere).penalty_ratio(length))
    assert measured == pytest.approx(3 * bm25(times, length, everywhere))


def test_what_has_nothing_to_do_with_lengths_stays_as_it_is():
    assert global_score(1.5, 0.0, MeanLengths(200.0, 300.0).penalty_ratio(100)) == 1.5
    assert global_score(1.5, 9.0, MeanLengths(200.0, 200.1).penalty_ratio(100)) == 1.5
    assert global_score(1.5, 9.0, MeanLengths(0.0, 200.0).penalty_ratio(100)) == 1.5


def test_lengths_are_as_coarse_as_in_the_index():
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", tokenizer_name="whitespace")
    index = tantivy.Index(builder.build())
    lengths = [1, 2, 39, 40, 41, 55, 56, 59, 87, 88, 95, 151, 152, 167, 300, 1_000, 4_321, 20_000]
    with index.writer(heap_size=20 << 20, num_threads=1) as writer:
        for length in lengths:
            writer.add_document(tantivy.Document(text=" ".join(["a"] * length)))
    index.reload()
    searcher, mean = index.searcher(), sum(lengths) / len(lengths)
    query = tantivy.Query.term_query(index.schema, "text", "a")
    highest = dict.fromkeys(lengths, 0.0)
    for score, address in searcher.search(query, limit=len(lengths)).hits:
        highest[lengths[address.doc]] = score
    rarity = highest[1] / bm25(1, 1, mean)
    for length, score in highest.items():
        assert score == pytest.approx(rarity * bm25(length, quantize_length(length), mean), rel=1e-4), length
