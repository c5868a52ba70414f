"""Benchmarks, most of them as ratios to a floor or a peer in the same run."""
