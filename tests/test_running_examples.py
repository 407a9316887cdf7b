"""The examples for systemd, Kubernetes and Prometheus are what these programs accept, and name what there is."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tarrafa.coordinator.monitoring.snapshot import SystemSnapshot, cluster_totals, node_snapshot
from tarrafa.coordinator.node.messages import LogState, NodeOrders, NodeState, ScrubState
from tarrafa.server.console.prometheus_metrics import prometheus_text
from tests.coordinator.node.sample_messages import a_beat

DOCS = Path(__file__).parents[1] / "docs"
ALERTS = DOCS / "alerts.yml"
ALERT_TESTS = """
rule_files: [{rules}]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {{series: 'tarrafa_info{{version="1"}}', values: '1x30'}}
      - {{series: 'tarrafa_node_up{{node="b"}}', values: '1 1 0x28'}}
      - {{series: 'tarrafa_node_store_up{{node="a"}}', values: '1x10 0x20'}}
      - {{series: 'tarrafa_node_log_behind_seconds{{node="a"}}', values: '0x5 400x25'}}
      - {{series: 'tarrafa_process_restarts_total{{node="a",process="a-1"}}', values: '0x5 1 2 3 4 5x20'}}
    alert_rule_test:
      - {{eval_time: 3m, alertname: TarrafaNodeSilent, exp_alerts: []}}
      - eval_time: 5m
        alertname: TarrafaNodeSilent
        exp_alerts: [{{exp_labels: {{severity: warning, node: b}}, exp_annotations: {silent}}}]
      - {{eval_time: 10m, alertname: TarrafaStoreDown, exp_alerts: []}}
      - {{eval_time: 8m, alertname: TarrafaLogBehind, exp_alerts: []}}
"""


def program(name: str) -> str:
    """Its path; the test is skipped where it is not installed."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def check(*command: str | Path, code: int = 0) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_systemd_accepts_the_unit(tmp_path):
    systemd, ours = program("systemd-analyze"), Path(sys.executable).with_name("tarrafa")
    unit = tmp_path / "tarrafa.service"
    text = (DOCS / "tarrafa.service").read_text()
    unit.write_text(text.replace("/usr/local/bin/tarrafa", str(ours)))
    assert "tarrafa.service" not in check(systemd, "verify", "--man=no", unit)
    unit.write_text(text.replace("/usr/local/bin/tarrafa", str(ours)).replace("KillMode=mixed", "KillMode=never-heard"))
    assert "kill mode" in check(systemd, "verify", "--man=no", unit), "a mistake is seen"


def test_kubernetes_accepts_the_stateful_sets(tmp_path):
    validate = program("kubernetes-validate")
    assert check(validate, "--strict", DOCS / "kubernetes.yaml").count("passed") == 4
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text((DOCS / "kubernetes.yaml").read_text().replace("terminationGracePeriodSeconds", "gracePeriod"))
    check(validate, "--strict", wrong, code=1)


def test_prometheus_accepts_the_rules_and_fires_them_when_it_should(tmp_path):
    promtool = program("promtool")
    assert "9 rules found" in check(promtool, "check", "rules", ALERTS)
    tests = tmp_path / "tests.yml"
    silent = (
        '{summary: "Node b has sent no heartbeat for two minutes.", action: "Its hosts and parts are free for others'
        ' after a lease. If it is gone for good, forget it in the console."}'
    )
    tests.write_text(ALERT_TESTS.format(rules=ALERTS, silent=silent))
    check(promtool, "test", "rules", tests)
    tests.write_text(ALERT_TESTS.format(rules=ALERTS, silent=silent).replace("eval_time: 10m", "eval_time: 13m"))
    assert "TarrafaStoreDown" in check(promtool, "test", "rules", tests, code=1), (
        "the store has been away for 3 minutes"
    )


def test_every_metric_of_the_rules_exists():
    beat = a_beat("a", scrub=ScrubState(1.0, lost=1), log=LogState(3, 12.5, store_trouble="away", parts=4, building=1))
    node = node_snapshot(NodeState("a", 0.0, False, NodeOrders(), beat), 0.0)
    text = prometheus_text(SystemSnapshot(0.0, "", [], [], [node], cluster_totals([node])), "1").decode()
    samples = {one.name: one.value for family in text_string_to_metric_families(text) for one in family.samples}
    named = set(re.findall(r"tarrafa_\w+", " ".join(re.findall(r"expr: (.*)", ALERTS.read_text()))))
    assert len(named) == 10
    assert named - samples.keys() == set()
    ours = (
        "log_behind_segments",
        "log_behind_seconds",
        "store_up",
        "database_up",
        "parts",
        "parts_building",
        "draining",
    )
    assert [samples[f"tarrafa_node_{name}"] for name in ours] == [3.0, 12.5, 0.0, 1.0, 4.0, 1.0, 0.0]
