"""Monitoring: snapshots, time series, recent visits and utilization."""
