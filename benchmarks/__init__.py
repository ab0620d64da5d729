"""Benchmarks: `make bench` prints ours, the floor and the ratio.  Times are CPU seconds of one thread; medians of repeats."""
