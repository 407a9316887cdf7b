"""Fault injection: a long crawl on machines that burn, then assertions. `python -m benchmarks.fault_injection`."""
