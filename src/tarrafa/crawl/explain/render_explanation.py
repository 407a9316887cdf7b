"""Says how a page was rendered, why, and what its scripts asked for.

Promises: pure; only what the page's record says.
"""

import msgspec

from tarrafa.i18n import Message, Translator, joined, message
from tarrafa.model import RenderFacts, status_name


class ExplainedRequest(msgspec.Struct, frozen=True):
    """One request of a page's scripts. A negative status says why it was not made, or brought nothing."""

    url: str
    kind: str  # Script, XHR, Fetch …, as the browser names it
    status: int
    meaning: str
    bytes: int


class RenderExplanation(msgspec.Struct, frozen=True):
    """How the newest kept text of a page was made by scripts."""

    why: str
    result: str
    requests: list[ExplainedRequest]
    requests_total: int
    elapsed_s: float
    memory_bytes: int


def explain_render(facts: RenderFacts | None, _: Translator) -> RenderExplanation | None:
    if facts is None:
        return None
    requests = [
        ExplainedRequest(
            one.url,
            one.kind,
            one.status,
            _.render(joined([text for text in (status_name(one.status), one.why) if text], ": ")),
            one.bytes,
        )
        for one in facts.requests
    ]
    return RenderExplanation(
        _.render(facts.why),
        _.render(_result(facts)),
        requests,
        facts.requests_total,
        facts.elapsed_s,
        facts.memory_bytes,
    )


def _result(facts: RenderFacts) -> Message | str:
    if facts.error:
        return message("not rendered, kept as it was fetched: {error}", error=facts.error)
    parts: list[Message | str] = [message("rendered in {seconds:.1f} s", seconds=facts.elapsed_s)]
    if facts.cut == "time":
        parts.append(message("taken when its time was over ([render] time_max), before it was quiet"))
    if facts.cut == "length":
        parts.append(message("cut at [scope] size_max"))
    if facts.moved_to:
        parts.append(message("its scripts wanted to go to {targets}", targets=", ".join(facts.moved_to)))
    return joined(parts)
