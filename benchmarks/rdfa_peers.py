"""What do other processors find in RDFa? They are no dependencies: `make peers` installs them for comparisons.

Each is a function like our own (`tests.rdfa_suite.extract`): bytes, URL and content type in, N-Quads out.
ImportError: it is not installed.
"""

import json
import re
from io import BytesIO

import pyoxigraph

_declaration = re.compile(r"^\s*<\?xml[^>]*>")


def pyrdfa(body: bytes, url: str, content_type: str) -> str:
    """pyRdfa3, over html5lib and rdflib."""
    from pyRdfa import Options, pyRdfa  # type: ignore[import-untyped,import-not-found,unused-ignore]

    options = Options(output_default_graph=True, output_processor_graph=False)
    processor = pyRdfa(options=options, base=url, media_type=content_type.partition(";")[0])
    return str(processor.graph_from_source(BytesIO(body)).serialize(format="nt"))


def extruct(body: bytes, url: str, content_type: str) -> str:
    """extruct, over lxml and an older pyRdfa; it gives JSON-LD."""
    from extruct.rdfa import RDFaExtractor  # type: ignore[import-untyped,import-not-found,unused-ignore]

    markup = _declaration.sub("", body.decode("utf-8", "replace"))  # which lxml refuses in a text
    found = json.dumps(RDFaExtractor().extract(markup, url)).encode()
    quads = pyoxigraph.parse(found, format=pyoxigraph.RdfFormat.JSON_LD, base_iri=url)
    return (pyoxigraph.serialize(quads, format=pyoxigraph.RdfFormat.N_QUADS) or b"").decode()
