"""Counts server software and words in WARC files with Spark: partitions of paths, warcio's ArchiveIterator over each.

    python spark_words.py [--top N] FILE.warc.gz...        (or spark-submit, on a cluster)

Nothing in it knows of Tarrafa. Prints one JSON object: the number of pages, and the most frequent servers and words.
"""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator

from pyspark.sql import SparkSession
from warcio.archiveiterator import ArchiveIterator

WORD, TAG = re.compile(r"[^\W\d_]{2,}"), re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.S | re.I)


def count(paths: Iterable[str]) -> Iterator[tuple[tuple[str, str], int]]:
    """The HTML pages in some files, their servers and their words, with the number of each."""
    counts = Counter[tuple[str, str]]()
    for path in paths:
        with open(path, "rb") as stream:  # noqa: PTH123 (a URL of a distributed file system in a real job)
            for record in ArchiveIterator(stream):
                if record.rec_type != "response" or record.http_headers.get_statuscode() != "200":
                    continue
                if not (record.http_headers.get_header("Content-Type") or "").startswith("text/html"):
                    continue
                html = record.content_stream().read().decode("utf-8", "replace")
                counts["pages", ""] += 1
                counts["server", record.http_headers.get_header("Server") or "unknown"] += 1
                counts.update(("word", word.lower()) for word in WORD.findall(TAG.sub(" ", html)))
    yield from counts.items()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--top", type=int, default=20)
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    spark = SparkSession.builder.appName("words of WARC files").getOrCreate()
    files = spark.sparkContext.parallelize(options.files, len(options.files))
    counted = files.mapPartitions(count).reduceByKey(lambda one, other: one + other).cache()

    def top(kind: str) -> dict[str, int]:
        of_kind = counted.filter(lambda row: row[0][0] == kind)
        return {
            name: number for (_, name), number in of_kind.takeOrdered(options.top, lambda row: (-row[1], row[0][1]))
        }

    result = {"pages": top("pages").get("", 0), "servers": top("server"), "words": top("word")}
    sys.stdout.write(f"{json.dumps(result, ensure_ascii=False)}\n")
    spark.stop()


if __name__ == "__main__":
    main()
