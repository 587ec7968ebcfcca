"""Recordings of perf record, made longer for benchmarks."""

from __future__ import annotations

import struct
from pathlib import Path

EXIT, SAMPLE, FINISHED_ROUND = 4, 9, 68
USER_TYPE_START = 64

#: Bits of `sample_type` whose fields stand before the time in a sample.
IDENTIFIER, IP, TID, TIME = 1 << 16, 1 << 0, 1 << 1, 1 << 2


def repeat(path: Path, size: int) -> None:
    """Write the samples of a recording of one event over and over, each time later.

    Other records are written once, and the ends of processes not at all: they run on.
    """
    whole = bytearray(path.read_bytes())
    head = struct.unpack_from("<8sQQQQQQ", whole)
    (data_at, data_size), attr_at = head[5:7], head[3]
    (sample_type,) = struct.unpack_from("<Q", whole, attr_at + 24)
    if not sample_type & TIME:
        raise ValueError("samples without times")
    time_at = 8 + 8 * sum(bool(sample_type & bit) for bit in (IDENTIFIER, IP, TID))
    others, samples, times = bytearray(), bytearray(), []
    at = data_at
    while at < data_at + data_size:
        kind, _, length = struct.unpack_from("<IHH", whole, at)
        record = whole[at : at + length]
        if kind == SAMPLE:
            times.append(len(samples) + time_at)
            samples += record
        elif kind == FINISHED_ROUND:
            samples += record
        elif kind != EXIT and kind < USER_TYPE_START:
            others += record
        at += length
    seconds = [struct.unpack_from("<Q", samples, place)[0] for place in times]
    length_ns = max(seconds) - min(seconds) + 1_000_000
    copies = max(1, size // len(samples))
    after = bytes(whole[data_at + data_size :])
    with path.open("wb") as out:
        moved = len(others) + copies * len(samples) - data_size
        struct.pack_into("<Q", whole, 48, data_size + moved)
        out.write(whole[:data_at])
        out.write(others)
        for copy in range(copies):
            if copy:
                for place, time in zip(times, seconds):
                    struct.pack_into("<Q", samples, place, time + copy * length_ns)
            out.write(samples)
        out.write(moved_sections(after, data_at + data_size, moved))


def moved_sections(after: bytes, place: int, by: int) -> bytes:
    """What stands behind the records, with the places of its sections moved on."""
    moved = bytearray(after)
    at = 0
    # The table of sections ends where the first of them begins.
    first = struct.unpack_from("<Q", after)[0] - place if len(after) >= 16 else 0
    while at + 16 <= min(first, len(after)):
        section, length = struct.unpack_from("<QQ", after, at)
        struct.pack_into("<QQ", moved, at, section + by, length)
        at += 16
    return bytes(moved)
