"""The nodes of a shared archive: the console says how far each is behind the log, and what does not answer."""

import pytest

from tarrafa.coordinator.monitoring.snapshot import SystemSnapshot, cluster_totals, node_snapshot
from tarrafa.coordinator.node.messages import LogState, NodeOrders, NodeState
from tarrafa.i18n import ENGLISH
from tarrafa.i18n.translator import PORTUGUESE, Translator
from tarrafa.server.console import labels
from tarrafa.server.jinja_environment import TemplateRenderer
from tests.coordinator.node.sample_messages import a_beat


@pytest.mark.parametrize(
    ("log", "english", "portuguese"),
    [
        (LogState(), "has the whole log", "tem o registro inteiro"),
        (LogState(1, 5.0), "1 segment of the log is missing here", "falta aqui 1 segmento do registro"),
        (LogState(7, 90.0), "7 segments of the log are missing here", "faltam aqui 7 segmentos do registro"),
        (LogState(parts=4, building=1), "shards of the index: 4 (being made: 1)", "partes do índice: 4"),
        (LogState(store_trouble="s3://a: the <store> sleeps"), "s3://a: the &lt;store&gt; sleeps", "sleeps"),
    ],
)
def test_the_page_of_nodes_tells_how_far_each_is_behind(log, english, portuguese):
    assert english in shown(log, ENGLISH)
    assert portuguese in shown(log, PORTUGUESE)


def test_a_node_with_an_archive_of_its_own_has_no_log():
    assert shown(None, ENGLISH).count("of the log") == shown(LogState(), ENGLISH).count("whole log") - 1 == 0


def shown(log: LogState | None, language: Translator) -> str:
    node = node_snapshot(NodeState("one", 0.0, False, NodeOrders(), a_beat("one", log=log)), 0.0)
    snapshot = SystemSnapshot(0.0, "", [], [], [node], cluster_totals([node]))
    return TemplateRenderer(language).render("console/nodes_part.html", snapshot=snapshot, labels=labels)
