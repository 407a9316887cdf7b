"""Exports for other programs: WARC and WACZ files of a selection, pages as text or HTML, and tables in Parquet.

`selection` says which captures; `record_list` lists their records and index lines in a temporary file; `warc_copy`
copies records as they lie; `wacz` packs them with index and page list; `page_export` writes texts. `table_rows`,
`parquet_export` and `sql_query` make tables of the archive and answer SQL over them. What is taken down, and what asks
not to be shown from an archive (`noarchive`), is in no export.
"""
