"""Spark over our files as they lie: the job of docs, which knows nothing of Tarrafa, and the tables."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tarrafa.export.parquet_export import export_tables
from tarrafa.export.table_rows import TableContents
from tests.captures.archive_tools import environment
from tests.captures.archived_site import new_archive
from tests.export.table_archive import SmallCrawl
from tests.export.test_warc_and_wacz import silent

JOB = Path(__file__).parents[2] / "docs" / "spark_words.py"
SPARK_S_MAX = 300
TABLES = """
import json, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
counts = {name: spark.read.parquet(f"{sys.argv[1]}/{name}").count() for name in ("pages", "links", "entities")}
print(json.dumps(counts))
"""
pytestmark = [
    pytest.mark.long,  # the first time some minutes to install pyspark
    pytest.mark.skipif(shutil.which("java") is None, reason="no java: install Debian's openjdk-17-jre-headless"),
]


def spark(*arguments: str) -> str:
    tools = environment("spark-tools-1")
    paths = {"PATH": f"{tools}:{os.environ['PATH']}", "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [str(tools / "python"), *arguments], capture_output=True, text=True, env=os.environ | paths, timeout=SPARK_S_MAX
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    return done.stdout


def test_a_job_over_our_files_counts_servers_and_words(tmp_path):
    data = new_archive(tmp_path / "data")
    crawl = SmallCrawl(data)
    crawl.write_all()
    crawl.writer.close()
    files = sorted(map(str, data.archive.glob("*[0-9].warc.gz")))
    found = json.loads(spark(str(JOB), "--top", "3", *files))
    assert found["pages"] == 6
    assert found["servers"] == {"nginx/1.2": 3, "Apache": 2, "unknown": 1}
    assert found["words"] == {"de": 2, "notícia": 2, "antiga": 1}


def test_spark_reads_the_tables(tmp_path):
    data = new_archive(tmp_path / "data")
    SmallCrawl(data).write_all()
    export_tables(data, tmp_path / "tables", TableContents(), silent)
    assert json.loads(spark("-c", TABLES, str(tmp_path / "tables"))) == {"pages": 6, "links": 7, "entities": 3}
