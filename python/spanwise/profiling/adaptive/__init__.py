"""Keeping a promise of overhead: measured, planned, and recorded in depth only where needed."""
