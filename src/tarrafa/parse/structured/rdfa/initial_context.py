"""Holds the RDFa initial context (prefixes, terms) and the rules of each host language.

Promises: the prefixes and terms of the W3C's initial contexts for RDFa 1.1
(https://www.w3.org/2011/rdfa-context/rdfa-1.1 and xhtml-rdfa-1.1), and what each host language adds to RDFa Core.
Knows nothing of any page.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from tarrafa.parse.rdf import prefixes

HostLanguage = Literal["html", "xhtml", "xml"]

XHV = "http://www.w3.org/1999/xhtml/vocab#"
RDFA = "http://www.w3.org/ns/rdfa#"
DEFAULT_PREFIX = XHV  # `:next`

# Prefixes that have the same meaning outside of RDFa.
_SHARED = (
    "as cc ctag dc dc11 dcat dcterms foaf gr ical og org owl prov rdf rdfa rdfs rev sioc skos v vcard void xhv xsd"
)
PREFIXES: Mapping[str, str] = {name: prefixes.PREFIXES[name] for name in _SHARED.split()} | {
    "csvw": "http://www.w3.org/ns/csvw#",
    "dqv": "http://www.w3.org/ns/dqv#",
    "duv": "https://www.w3.org/ns/duv#",
    "grddl": "http://www.w3.org/2003/g/data-view#",
    "jsonld": "http://www.w3.org/ns/json-ld#",
    "ldp": "http://www.w3.org/ns/ldp#",
    "ma": "http://www.w3.org/ns/ma-ont#",
    "oa": "http://www.w3.org/ns/oa#",
    "odrl": "http://www.w3.org/ns/odrl/2/",
    "qb": "http://purl.org/linked-data/cube#",
    "rif": "http://www.w3.org/2007/rif#",
    "rr": "http://www.w3.org/ns/r2rml#",
    "schema": "http://schema.org/",
    "sd": "http://www.w3.org/ns/sparql-service-description#",
    "skosxl": "http://www.w3.org/2008/05/skos-xl#",
    "sosa": "http://www.w3.org/ns/sosa/",
    "ssn": "http://www.w3.org/ns/ssn/",
    "time": "http://www.w3.org/2006/time#",
    "wdr": "http://www.w3.org/2007/05/powder#",
    "wdrs": "http://www.w3.org/2007/05/powder-s#",
    "xml": "http://www.w3.org/XML/1998/namespace",
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
