"""What a node may be ordered, by hand or by a program."""

import pytest

from tarrafa.coordinator.node.messages import ROLES, NodeOrders
from tarrafa.coordinator.node.orders import NodeOrdersForm, checked_orders, form_from_orders, orders_from_form
from tarrafa.errors import ConfigError


@pytest.mark.parametrize(
    "orders",
    [
        NodeOrders(),
        NodeOrders(roles=("worker",), workers=0, hosts_at_once=1, bandwidth=1000, cpu=0.01, paused=True),
        NodeOrders(workers=64, hosts_at_once=100_000, bandwidth=2_000_000, cpu=1.0),
    ],
)
def test_orders_survive_the_way_through_a_form(orders):
    assert orders_from_form(form_from_orders(orders), orders.roles, paused=orders.paused) == orders


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (NodeOrdersForm(workers="65"), "workers: must be 0 to 64, got 65"),
        (NodeOrdersForm(workers="-1"), "workers: must be a whole number, got '-1'"),
        (NodeOrdersForm(workers="٣"), "workers: must be a whole number"),
        (NodeOrdersForm(hosts_at_once="0"), "hosts at once: must be 1 to 100,000, got 0"),
        (NodeOrdersForm(bandwidth="fast"), "bandwidth: not a size: 'fast'"),
        (NodeOrdersForm(bandwidth="1 B"), "bandwidth: must be 1 KB to 1 TB a second"),
        (NodeOrdersForm(bandwidth="9" * 400), "bandwidth: '99999999999999999999'… is too long"),
        (NodeOrdersForm(cpu="0"), "processor: must be 1 to 100 percent"),
        (NodeOrdersForm(cpu="nan"), "processor: must be 1 to 100 percent"),
        (NodeOrdersForm(cpu="half"), "processor: must be 1 to 100 percent, got 'half'"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(fields, said):
    with pytest.raises(ConfigError) as refused:
        orders_from_form(fields, ROLES, paused=False)
    assert str(refused.value).startswith(said)


def test_a_node_has_a_role_that_exists():
    with pytest.raises(ConfigError, match="at least one role"):
        checked_orders(NodeOrders(roles=()))
    with pytest.raises(ConfigError, match="'king' is none of worker, follower, search"):
        checked_orders(NodeOrders(roles=("king",)))
    assert checked_orders(NodeOrders(roles=("search", "worker", "search"))).roles == ("worker", "search")


def test_what_people_type_may_have_a_unit():
    orders = orders_from_form(NodeOrdersForm(bandwidth="2 MB/s", cpu="50,5 %"), ROLES, paused=False)
    assert (orders.bandwidth, orders.cpu) == (2_000_000, 0.505)
