"""Simulation: many actors on one table, stepped storage call by storage call; one seed decides everything.

`python -m tests.simulation --seed 7` runs one seed, and `--seconds 60` as many as fit. See CONTRIBUTING.md.
"""
