"""Computes the synthetic Web from its seed: hosts, resources, outlinks, versions, text."""
