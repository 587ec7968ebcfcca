"""Opened traces: their tables, comparisons, pages; numbers of experiments."""
