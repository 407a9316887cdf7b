"""Serializes the content of an element as an XML literal.

Promises: the output is well-formed apart from its namespaces (those in force stand on each outermost element, RDFa Core
1.1 section 7.5 step 11), whatever the tree holds. Elements with names that XML does not allow are left out; their
content stays. No recursion, and hardly more is written than asked for.
Knows nothing of RDFa's attributes.
"""

import re
from collections.abc import Iterator, Mapping
from html import escape

from turbohtml import CData, Comment, Element, Namespace, Node, ProcessingInstruction, Text

_NAMESPACES = {
    Namespace.HTML: "http://www.w3.org/1999/xhtml",
    Namespace.SVG: "http://www.w3.org/2000/svg",
    Namespace.MATHML: "http://www.w3.org/1998/Math/MathML",
}
_name = re.compile(r"(?:([^\W\d][\w.\-\u00b7]*):)?[^\W\d][\w.\-\u00b7]*").fullmatch


def serialize_content(element: Element, declared: Mapping[str, str], length_max: int) -> str:
    """The content of the element, cut soon after `length_max` characters. `declared` are the prefixes in force, with
    that of xmlns under the empty name if the page was read as XML.
    """
    around = {"": _NAMESPACES[Namespace.HTML], **declared}
    as_xml = "" in declared
    written: list[str] = []
    length = 0
    open_: list[tuple[Iterator[Node], str, Namespace | None]] = [(iter(element), "", None)]
    while open_ and length <= length_max:
        children, end, parent = open_[-1]
        node = next(children, None)
        if node is None:
            open_.pop()
            text = end
        elif isinstance(node, Element):
            text, end = _tags(node, parent, around, as_xml=as_xml)
            open_.append((iter(node), end, node.namespace))
        else:
            text = _leaf(node)
        written.append(text)
        length += len(text)
    return "".join(written)


def _tags(element: Element, parent: Namespace | None, around: Mapping[str, str], *, as_xml: bool) -> tuple[str, str]:
    """The start and end tag; both empty if XML allows no such name. An element without a parent is an outermost one."""
    if not _fits(element.tag, around, as_xml=as_xml):
        return "", ""
    own: dict[str, str] = {}
    for name, value in element_attributes(element).items():
        declares = name == "xmlns" or name.startswith("xmlns:")
        if as_xml or (not declares and _fits(name, around, as_xml=False)):
            own[name] = value if isinstance(value, str) else " ".join(value or ())
    if parent is None:
        for prefix in sorted(around):
            own.setdefault(f"xmlns:{prefix}" if prefix else "xmlns", around[prefix])
    if element.namespace is not (parent or Namespace.HTML) and not as_xml:
        own["xmlns"] = _NAMESPACES[element.namespace]
    written = "".join(f' {name}="{escape(value)}"' for name, value in own.items())
    return f"<{element.tag}{written}>", f"</{element.tag}>"


def element_attributes(element: Element) -> dict[str, str | list[str] | None]:
    """All attributes; none if a name holds a lone surrogate, which the tree accepts but does not return."""
    try:
        return element.attrs.copy()
    except UnicodeDecodeError:
        return {}


def _fits(name: str, around: Mapping[str, str], *, as_xml: bool) -> bool:
    found = _name(name)
    return found is not None and (as_xml or not found[1] or found[1] == "xml" or found[1] in around)


def _leaf(node: Node) -> str:
    if isinstance(node, Text | CData):
        return escape(node.data, quote=False)
    if isinstance(node, Comment):
        return "" if "--" in node.data or node.data.endswith("-") else f"<!--{node.data}-->"
    if isinstance(node, ProcessingInstruction):
        return "" if "?>" in node.data or not _name(node.target) else f"<?{node.target} {node.data}?>"
    return ""
