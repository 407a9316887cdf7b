"""Holds the well-known JSON-LD contexts (schema.org, ActivityStreams), so that none is ever fetched.

A context is a remote document that defines the terms of a JSON-LD block. It is known under every spelling that pages
use. Only the definitions of the requested terms are given: the whole context of schema.org costs 5 ms per block.
Knows nothing of blocks or pages.
"""

import re
from collections.abc import Set
from typing import Any, NamedTuple

from tarrafa.parse.rdf.prefixes import PREFIXES

Definitions = dict[str, Any]  # a context, as JSON

# The terms of schema.org that its context coerces: values of the first group are IRIs, values of the second have the
# datatype schema:Date. Compiled from the property ranges of schema.org's vocabulary (release 29) by the rule by which
# schema.org makes its context: a property that may be Text is not coerced, else URL makes it an IRI, else Date makes it
# a date. For release 12.0, whose context was at hand, the rule gives exactly that context. The IRIs use http://
# whatever the address.
_SCHEMA_URLS = """
    acquireLicensePage actionableFeedbackPolicy afterMedia archivedAt associatedDisease beforeMedia
    benefitsSummaryUrl codeRepository colleague colorSwatch constraintProperty contentUrl correctionsPolicy
    discussionUrl diseasePreventionInfo diseaseSpreadStatistics diversityPolicy diversityStaffingReport
    documentation downloadUrl duringMedia embedUrl ethicsPolicy gameLocation gettingTestedInfo hasGS1DigitalLink
    hasMap hasMolecularFunction healthPlanMarketingUrl image inCodeSet inDefinedTermSet installUrl isBasedOn
    isBasedOnUrl isInvolvedInBiologicalProcess isLocatedInSubcellularLocation isPartOf labelDetails layoutImage
    license logo mainEntityOfPage map maps masthead merchantReturnLink missionCoveragePrioritiesPolicy
    newsUpdatesAndGuidelines noBylinesPolicy originalMediaLink paymentUrl prescribingInfo
    publicTransportClosuresInfo publishingPrinciples quarantineGuidelines relatedLink replyToUrl sameAs
    schoolClosuresInfo screenshot sdLicense season serviceUrl significantLink significantLinks speakable target
    targetUrl thumbnailUrl tourBookingPage trackingUrl travelBans unnamedSourcesPolicy url usageInfo
    verificationFactCheckingPolicy webFeed
"""
_SCHEMA_DATES = """
    applicationStartDate auditDate availabilityEnds availabilityStarts birthDate commentTime dateCreated
    dateDeleted dateIssued dateModified datePosted datePublished dateRead dateVehicleFirstRegistered deathDate
    dissolutionDate endDate exceptDate expectedArrivalFrom expectedArrivalUntil expires foundingDate
    guidelineDate lastReviewed legislationDate legislationDateOfApplicability legislationDateVersion
    merchantReturnDays modelDate observationDate orderDate paymentDueDate previousStartDate priceValidUntil
    productionDate purchaseDate releaseDate scheduledPaymentDate scheduledTime sdDatePublished startDate
    uploadDate validFrom validThrough validUntil vehicleModelDate
"""

# https://www.w3.org/ns/activitystreams; terms that it defines without coercion need only its vocabulary.
_ACTIVITY_URLS = """
    actor anyOf attachment attributedTo audience bcc bto cc context current describes endpoints first followers
    following formerType generator href icon image inReplyTo instrument items last liked likes location next object
    oneOf origin outbox partOf prev preview proxyUrl relationship replies result sharedInbox shares streams subject tag
    target to uploadMedia url
"""
_ACTIVITY_TYPED = {
    "dateTime": "closed deleted endTime published startTime updated",
    "duration": "duration",
    "float": "accuracy altitude latitude longitude radius",
    "nonNegativeInteger": "height startIndex totalItems width",
}
_ACTIVITY = "https://www.w3.org/ns/activitystreams#"
_XSD = "http://www.w3.org/2001/XMLSchema#"
_SCHEMA = "http://schema.org/"


class KnownContext(NamedTuple):
    """A well-known context: the vocabulary of terms without a definition, and the definitions."""

    vocabulary: str
    terms: Definitions

    def restricted_to(self, names: Set[str]) -> Definitions:
        """The context reduced to the definitions of these names and prefixes, for a block that uses no others."""
        return {"@vocab": self.vocabulary} | {name: self.terms[name] for name in self.terms.keys() & names}


def known_context(address: str) -> KnownContext | None:
    """The context with this address; None if it is unknown."""
    found = _schema_org(address)
    if found:
        return _CONTEXTS[_SCHEMA]
    return _CONTEXTS.get(address.strip().rstrip("/#").lower())


def _defined() -> dict[str, KnownContext]:
    aliases = {"id": "@id", "type": "@type"}
    schema: Definitions = (
        aliases | _SCHEMA_PREFIXES | {"HTML": {"@id": "http://www.w3.org/1999/02/22-rdf-syntax-ns#HTML"}}
    )
    schema |= {name: {"@id": _SCHEMA + name, "@type": "@id"} for name in _SCHEMA_URLS.split()}
    schema |= {name: {"@id": _SCHEMA + name, "@type": f"{_SCHEMA}Date"} for name in _SCHEMA_DATES.split()}
    activity: Definitions = aliases | {"as": _ACTIVITY, "xsd": _XSD}
    activity |= {name: {"@id": _ACTIVITY + name, "@type": "@id"} for name in _ACTIVITY_URLS.split()}
    for kind, names in _ACTIVITY_TYPED.items():
        activity |= {name: {"@id": _ACTIVITY + name, "@type": _XSD + kind} for name in names.split()}
    for name in ("content", "name", "summary"):
        activity[f"{name}Map"] = {"@id": _ACTIVITY + name, "@container": "@language"}
    activity["orderedItems"] = {"@id": f"{_ACTIVITY}items", "@type": "@id", "@container": "@list"}
    activity["inbox"] = {"@id": "http://www.w3.org/ns/ldp#inbox", "@type": "@id"}
    # Pages also name a vocabulary where a context belongs. No context exists at that address, but the meaning is clear.
    found = {iri.rstrip("/#").lower(): KnownContext(iri, {}) for iri in PREFIXES.values()}
    return found | {_SCHEMA: KnownContext(_SCHEMA, schema), _ACTIVITY.rstrip("#"): KnownContext(_ACTIVITY, activity)}


_SCHEMA_PREFIXES = {
    "brick": "https://brickschema.org/schema/Brick#", "csvw": "http://www.w3.org/ns/csvw#",
    "dc": "http://purl.org/dc/elements/1.1/", "dcam": "http://purl.org/dc/dcam/", "dcat": "http://www.w3.org/ns/dcat#",
    "dcmitype": "http://purl.org/dc/dcmitype/", "dct": "http://purl.org/dc/terms/",
    "dcterms": "http://purl.org/dc/terms/", "dctype": "http://purl.org/dc/dcmitype/",
    "doap": "http://usefulinc.com/ns/doap#", "foaf": "http://xmlns.com/foaf/0.1/",
    "odrl": "http://www.w3.org/ns/odrl/2/", "org": "http://www.w3.org/ns/org#", "owl": "http://www.w3.org/2002/07/owl#",
    "prof": "http://www.w3.org/ns/dx/prof/", "prov": "http://www.w3.org/ns/prov#",
    "qb": "http://purl.org/linked-data/cube#", "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#", "schema": _SCHEMA, "sh": "http://www.w3.org/ns/shacl#",
    "skos": "http://www.w3.org/2004/02/skos/core#", "sosa": "http://www.w3.org/ns/sosa/",
    "ssn": "http://www.w3.org/ns/ssn/", "time": "http://www.w3.org/2006/time#", "vann": "http://purl.org/vocab/vann/",
    "void": "http://rdfs.org/ns/void#", "xsd": _XSD,
}  # fmt: skip
_CONTEXTS = _defined()

# schema.org itself, www. and its old subdomains (auto., bib.), any page of it, with or without a scheme.
_schema_org = re.compile(
    r"\s*(?:https?:)?/{0,2}(?:[a-z-]{1,32}\.)?schema\.org(?:[/#:?].*)?\s*", re.IGNORECASE | re.DOTALL
).fullmatch
