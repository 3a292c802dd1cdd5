"""Peers and measurements, run by `make bench-*` and not installed."""
