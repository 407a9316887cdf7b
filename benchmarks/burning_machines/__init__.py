"""Machines that burn: a long crawl under faults, and assertions at rest. `python -m benchmarks.burning_machines`."""
