"""The last verification of each node: in the metrics and on its page."""

from tarrafa.coordinator.monitoring.snapshot import SystemSnapshot, cluster_totals, node_snapshot
from tarrafa.coordinator.node.messages import NodeOrders, NodeState, ScrubState
from tarrafa.i18n import ENGLISH
from tarrafa.i18n.translator import PORTUGUESE
from tarrafa.server.console import labels
from tarrafa.server.console.prometheus_metrics import prometheus_text
from tarrafa.server.jinja_environment import TemplateRenderer
from tests.coordinator.node.sample_messages import a_beat


def test_a_node_tells_what_its_last_verification_found() -> None:
    scrub = ScrubState(1_795_000_000.0, 12.5, 1 << 30, lost=2, derived=1, known_losses=3)
    nodes = [
        node_snapshot(NodeState(beat.node, 0.0, False, NodeOrders(), beat), 0.0)
        for beat in (a_beat("one", scrub=scrub), a_beat("other"))
    ]
    text = prometheus_text(SystemSnapshot(0.0, "", [], [], nodes, cluster_totals(nodes)), "1").decode()
    found = [line for line in text.splitlines() if line.startswith("tarrafa_verify")]
    assert found == [
        'tarrafa_verify_last_timestamp_seconds{node="one"} 1.795e+09',
        'tarrafa_verify_duration_seconds{node="one"} 12.5',
        'tarrafa_verify_known_losses{node="one"} 3.0',
        'tarrafa_verify_findings{node="one",severity="lost"} 2.0',
        'tarrafa_verify_findings{node="one",severity="derived"} 1.0',
        'tarrafa_verify_findings{node="one",severity="harmless"} 0.0',
    ]


def test_the_page_of_a_node_says_in_both_languages_whether_its_data_were_checked() -> None:
    shown = {}
    for scrub in (None, ScrubState(1_795_000_000.0, bytes=1 << 30), ScrubState(1.0, lost=2, known_losses=3)):
        node = node_snapshot(NodeState("one", 0.0, False, NodeOrders(), a_beat("one", scrub=scrub)), 0.0)
        snapshot = SystemSnapshot(0.0, "", [], [], [node], cluster_totals([node]))
        for language in (ENGLISH, PORTUGUESE):
            page = TemplateRenderer(language).render(
                "console/node_part.html", one=node, snapshot=snapshot, labels=labels
            )
            shown[scrub.lost if scrub else None, language.code] = page
    assert "Data not checked for damage yet." in shown[None, "en"]
    assert "Dados ainda não verificados à procura de danos." in shown[None, "pt"]
    assert "1.07 GB" in shown[0, "en"] and "nothing wrong" in shown[0, "en"]
    assert "nada errado" in shown[0, "pt"]
    assert "lost: 2, derived data that can be rebuilt: 0" in shown[2, "en"]
    assert "perdidos: 2" in shown[2, "pt"] and "visitas sabidamente perdidas: 3" in shown[2, "pt"]
    assert 'class="banner"' in shown[2, "en"] and 'class="banner"' not in shown[0, "en"]
