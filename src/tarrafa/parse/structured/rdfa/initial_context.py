"""Holds the RDFa initial context (prefixes, terms) and the rules of each host language.

Promises: the prefixes and terms of the W3C's initial contexts for RDFa 1.1
(https://www.w3.org/2011/rdfa-context/rdfa-1.1 and xhtml-rdfa-1.1), and what each host language adds to RDFa Core.
Knows nothing of any page.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

HostLanguage = Literal["html", "xhtml", "xml"]

XHV = "http://www.w3.org/1999/xhtml/vocab#"
RDFA = "http://www.w3.org/ns/rdfa#"
DEFAULT_PREFIX = XHV  # `:next`

PREFIXES: Mapping[str, str] = {
    "as": "https://www.w3.org/ns/activitystreams#",
    "cc": "http://creativecommons.org/ns#",
    "csvw": "http://www.w3.org/ns/csvw#",
    "ctag": "http://commontag.org/ns#",
    "dc": "http://purl.org/dc/terms/",
    "dc11": "http://purl.org/dc/elements/1.1/",
    "dcat": "http://www.w3.org/ns/dcat#",
    "dcterms": "http://purl.org/dc/terms/",
    "dqv": "http://www.w3.org/ns/dqv#",
    "duv": "https://www.w3.org/ns/duv#",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "gr": "http://purl.org/goodrelations/v1#",
    "grddl": "http://www.w3.org/2003/g/data-view#",
    "ical": "http://www.w3.org/2002/12/cal/icaltzd#",
    "jsonld": "http://www.w3.org/ns/json-ld#",
    "ldp": "http://www.w3.org/ns/ldp#",
    "ma": "http://www.w3.org/ns/ma-ont#",
    "oa": "http://www.w3.org/ns/oa#",
    "odrl": "http://www.w3.org/ns/odrl/2/",
    "og": "http://ogp.me/ns#",
    "org": "http://www.w3.org/ns/org#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "prov": "http://www.w3.org/ns/prov#",
    "qb": "http://purl.org/linked-data/cube#",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfa": RDFA,
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "rev": "http://purl.org/stuff/rev#",
    "rif": "http://www.w3.org/2007/rif#",
    "rr": "http://www.w3.org/ns/r2rml#",
    "schema": "http://schema.org/",
    "sd": "http://www.w3.org/ns/sparql-service-description#",
    "sioc": "http://rdfs.org/sioc/ns#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "skosxl": "http://www.w3.org/2008/05/skos-xl#",
    "sosa": "http://www.w3.org/ns/sosa/",
    "ssn": "http://www.w3.org/ns/ssn/",
    "time": "http://www.w3.org/2006/time#",
    "v": "http://rdf.data-vocabulary.org/#",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "void": "http://rdfs.org/ns/void#",
    "wdr": "http://www.w3.org/2007/05/powder#",
    "wdrs": "http://www.w3.org/2007/05/powder-s#",
    "xhv": XHV,
    "xml": "http://www.w3.org/XML/1998/namespace",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}

TERMS: Mapping[str, str] = {
    "describedby": "http://www.w3.org/2007/05/powder-s#describedby",
    "license": XHV + "license",
    "role": XHV + "role",
}

_XHTML_WORDS = (
    "alternate appendix bookmark chapter cite contents copyright first glossary help icon index itsRules last license "
    "meta next p3pv1 prev previous role section start stylesheet subsection top up"
)
XHTML_TERMS: Mapping[str, str] = {**TERMS, **{word: XHV + word for word in _XHTML_WORDS.split()}}


class HostLanguageRules(NamedTuple):
    """The additions of a host language to RDFa Core."""

    terms: Mapping[str, str] = TERMS
    html5: bool = False  # HTML+RDFa: times, patterns, and HTML's own @rel words ignored beside a @property
    head_and_body: bool = True  # they have the same subject as their parent
    languages: tuple[str, ...] = ("xml:lang", "lang")  # the first one present counts
    as_xml: bool = True  # namespaces are more than attributes
    xml_base: bool = False
    role: bool = False  # Role Attribute 1.0 §4; in text/html a role is ARIA's, and says nothing about the page


HTML = HostLanguageRules(html5=True, languages=("lang", "xml:lang"), as_xml=False)
XHTML1 = HostLanguageRules(terms=XHTML_TERMS, role=True)
XHTML5 = HostLanguageRules(html5=True, role=True)
XML = HostLanguageRules(head_and_body=False, languages=("xml:lang",), xml_base=True, role=True)
