"""Fleets: the traces of many ranks, asked together, compared, kept as Parquet files."""
