"""Profilers for programs that are made of components: shared ones, and ready-made setups."""
