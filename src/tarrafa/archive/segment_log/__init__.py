"""The segment log: the archive of several machines, in an object store, in one order that a manifest keeps.

    worker --two objects--> object store          NAME.warc.gz, NAME.meta.warc.gz: a segment, as `warc_writer` packs it
           --one row------> manifest (PostgreSQL)   number, and where its bytes lie in the two files of the log
    machine <--- rows, then their objects           DATA/archive/tarrafa-…-log-00001.warc.gz and .meta.warc.gz

The log is one pair of files that no machine writes as a whole: the manifest gives each segment the next bytes of both.
So file names and offsets are the same on every machine, and everything that reads an archive reads the log.
"""
