"""Modules: what has parameters. No I/O."""
