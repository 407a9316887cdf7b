"""Nodes: the coordinator node, worker nodes, their messages, health, orders and search peers."""
