"""Check of the index of captures: it has exactly the captures of the archive, each as its record says."""

from tarrafa.archive.warc_writer import DurableLengths
from tarrafa.captures.store import captures_file
from tarrafa.crawl.verify.archive_check import ProjectionPosition, facts_digest
from tarrafa.crawl.verify.findings import Finding
from tarrafa.crawl.verify.store_comparison import Comparison, damage_of, merged, read_in_steps
from tarrafa.runtime.sqlite import rows

FACTS = (
    "urlkey, timestamp, length, url, mime, status, digest, kind, refers, refers_url,"
    " coalesce((SELECT name FROM collections k WHERE k.collection = captures.collection), ''), meta, noarchive"
)
STORED = (
    f"SELECT file, offset, {FACTS} FROM captures WHERE (urlkey, timestamp, file, offset) > (?, ?, ?, ?)"  # noqa: S608 (columns)
    " ORDER BY urlkey, timestamp, file, offset LIMIT ?"
)


class CapturesCheck:
    """The check of the index of captures. `upto`: how far the response files were read."""

    def __init__(self, shared: Comparison, position: ProjectionPosition, upto: dict[str, DurableLengths]) -> None:
        self._shared, self._position, self._upto = shared, position, upto
        self._file = captures_file(shared.data)

    def add(self, kind: str, file: str = "", offset: int | None = None, url: str = "", detail: str = "") -> None:
        name = f"{file}.warc.gz" if file else str(self._file.path.relative_to(self._shared.data.root))
        self._shared.findings.add(Finding(kind, "captures", name, offset, url=url, detail=detail))

    def compare_counts(self, captures: dict[str, int] | None) -> None:
        """Compare the number of captures of each file. `captures`: in the archive; None: they are compared one by one.
        Captures of deleted collections are in the archive only."""
        if damage := damage_of(self._file):
            self.add("store-damaged", detail=damage)
            return
        if captures is None or self._position.dropped:
            return
        with self._file.reading() as connection:
            counted = dict(
                rows(connection, "SELECT name, count(*) FROM captures JOIN files USING (file) GROUP BY file")
            )
        for name, count in captures.items():
            is_read = self._position.warc_cursor.get(name, 0) == self._upto[name].warc
            if is_read and counted.get(name, 0) != count:
                self.add("counts-differ", name, detail=f"{counted.get(name, 0):,} captures instead of {count:,}")

    def compare_captures(self) -> None:
        """Compare each capture with its record."""
        expected = self._shared.expected
        with self._file.reading() as connection:
            names = dict(rows(connection, "SELECT file, name FROM files"))
        stored = read_in_steps(self._file, STORED, ("", 0, 0, 0), lambda row: (row[2], row[3], row[0], row[1]))
        for number, offset, *facts in stored:
            name = names.get(number, "")
            if name not in self._upto:
                self._add_of_unknown_file(name, offset, str(facts[3]))
            elif offset < self._upto[name].warc:
                facts[-1] = bool(facts[-1])
                row = (expected.file_number(name), offset, facts_digest(tuple(facts)), facts[3])
                expected.append("stored_capture", row)
        expected.flush()
        expected.connection.execute("CREATE INDEX stored_by_place ON stored_capture (file, offset)")
        self._compare_rows()

    def _add_of_unknown_file(self, name: str, offset: int, url: str) -> None:
        if not (self._shared.data.archive / f"{name}.durable").exists():
            self.add("capture-extra", name, offset, url)

    def _compare_rows(self) -> None:
        run, name_of = self._shared.expected.connection.execute, self._shared.expected.file_name
        wanted = run("SELECT file, offset, facts, url, applied FROM capture ORDER BY file, offset")
        there = run("SELECT file, offset, facts, url FROM stored_capture ORDER BY file, offset")
        for record, stored in merged(wanted, there, lambda row: (row[0], row[1])):
            if record is None and stored is not None:
                self.add("capture-extra", name_of(stored[0]), stored[1], stored[3])
            elif record is not None and stored is None:
                if record[4]:
                    self.add("capture-missing", name_of(record[0]), record[1], record[3])
            elif record is not None and stored is not None and record[2] != stored[2]:
                self.add("capture-differs", name_of(record[0]), record[1], record[3])
