"""Inflate a .gz file with Python's zlib and drop the result."""

import json
import sys
import time
import zlib
from pathlib import Path

CHUNK_BYTES = 1 << 16

start = time.perf_counter()
inflated_bytes = 0
inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
with Path(sys.argv[1]).open("rb") as packed:
    while chunk := packed.read(CHUNK_BYTES):
        inflated_bytes += len(inflater.decompress(chunk))
load_s = time.perf_counter() - start

print(
    json.dumps(
        {
            "load_s": load_s,
            "version": zlib.ZLIB_RUNTIME_VERSION,
            "read": f"{inflated_bytes / 1e6:,.0f} MB of text",
        }
    )
)
