"""The ten questions of docs/tables.md: each runs on a small crawl, and has the right answer."""

import re
from pathlib import Path

import pytest

from tarrafa.export.parquet_export import export_tables
from tarrafa.export.sql_query import sql_answer
from tarrafa.export.table_rows import TableContents
from tarrafa.runtime.data_dir import DataDirectory
from tests.captures.archived_site import new_archive
from tests.export.table_archive import SmallCrawl
from tests.export.test_warc_and_wacz import silent

DOCUMENT = Path(__file__).parents[2] / "docs" / "tables.md"
ANSWERS = {
    1: [("pt", 4, 80.0), ("en", 1, 20.0)],
    2: [("news.com.br", 2, 7), ("shop.com.br", 2, 4), ("lab.org", 1, 4)],
    3: [("unknown", 2), ("Apache", 1), ("nginx", 1)],
    4: [(2, 3)],
    5: [("news.com.br", "lab.org", 2), ("lab.org", "news.com.br", 1), ("news.com.br", "shop.com.br", 1),
        ("shop.com.br", "news.com.br", 1)],
    6: [(True, 3, 2), (False, 2, 1)],
    7: [(200, 6, 3), (404, 2, 2), (-12, 1, 1)],
    8: [("news.com.br", 1, 2)],
    9: [("https://schema.org/Event", 2, 3)],
    10: [(2024, 1, 1), (2026, 1, 1)],
}  # fmt: skip


def questions() -> dict[int, str]:
    found = re.findall(r"\*\*(\d+)\. [^*]+\*\*[^`]*```sql\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    return {int(number): query for number, query in found}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> tuple[DataDirectory, Path]:
    data = new_archive(tmp_path_factory.mktemp("questions") / "data")
    SmallCrawl(data).write_all()
    root = data.root / "tables"
    export_tables(data, root, TableContents(), silent)
    return data, root


def test_there_are_ten_questions():
    assert questions().keys() == ANSWERS.keys() == set(range(1, 11))


@pytest.mark.parametrize("number", sorted(ANSWERS))
def test_a_question_of_the_document_has_its_answer(tables, number):
    data, root = tables
    with sql_answer(root, questions()[number], data) as answer:
        assert [row for some in answer.rows for row in some] == ANSWERS[number]
