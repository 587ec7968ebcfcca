"""What a viewer should hold of a profile, worked out from our CSV of it."""

import collections
import csv
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Case:
    """A file to read, and the column to show."""

    source: str
    value: str

    def file(self, folder: str, ending: str) -> str:
        return f"{folder}/{Path(self.source).name.split('.')[0]}-{self.value}.{ending}"

    def write(self, spanwise: str, folder: str, ending: str, options: Iterable[str] = ()) -> str:
        """Converts the source; gives the file."""
        out = self.file(folder, ending)
        convert = [spanwise, "convert", "--no-index", "--quiet", "-o", out, *options]
        subprocess.run([*convert, str(ROOT / self.source)], check=True)
        return out


CASES = [
    Case("testdata/kineto/llama_small.json.gz", "wall"),
    Case("testdata/kineto/llama_small.json.gz", "gpu"),
    Case("testdata/chrome/kinds_of_events.json", "wall"),
    Case("testdata/profile/nasty.pb", "wall"),
    Case("testdata/profile/nasty.pb", "copy"),
]
UNITS = {"wall": "nanoseconds", "gpu": "nanoseconds", "copy": "bytes"}


def lanes_of(case: Case, folder: str, *, is_flat: bool = False, is_escaped: bool = False) -> list[dict]:
    """For each thread and device its name and total, and the weights of its frames.

    A flat format has one lane, without a name. Collapsed stacks keep the spelling that
    stands for a separator in a name.
    """
    with open(case.file(folder, "csv"), newline="") as file:
        rows = list(csv.DictReader(file))
    lanes: dict[str, dict] = {}
    for row in rows:
        weight = int(row[f"{case.value}_{UNITS[case.value]}"])
        if weight == 0:
            continue
        # What no label places is called after the file.
        name = "" if is_flat else lane_of(row) or Path(case.source).name
        lane = lanes.setdefault(name, new_lane())
        frames = row["stack"].split(";")
        if not is_escaped:
            frames = [re.sub(r"\\x(3b|0a|0d|5c)", unescaped, frame) for frame in frames]
        lane["total"] += weight
        lane["frames"][frames[-1]]["self"] += weight
        for frame in set(frames):
            lane["frames"][frame]["total"] += weight
    return [{"name": name, **lanes[name]} for name in sorted(lanes)]


def lane_of(row: dict[str, str]) -> str:
    """The rank, and the device that worked, or else the thread."""
    parts = [row.get("rank"), row.get("device") or row.get("thread")]
    return ", ".join(part for part in parts if part)


def unescaped(spelled: re.Match[str]) -> str:
    return chr(int(spelled[1], 16))


def new_lane() -> dict:
    return {"total": 0, "frames": collections.defaultdict(lambda: {"self": 0, "total": 0})}


def differences(found: list[dict], wanted: list[dict], shown: int | None) -> list[str]:
    """What a viewer holds otherwise than it should: lanes, totals, frames, what it shows."""
    here, there = ([lane["name"] for lane in lanes] for lanes in (found, wanted))
    if here != there:
        return [f"profiles {here}, not {there}"]
    lines = []
    heaviest = max(lane["total"] for lane in wanted)
    if shown is not None and wanted[shown]["total"] != heaviest:
        lines.append(f"shows {found[shown]['name']} first, which is not the heaviest")
    for mine, theirs in zip(wanted, found):
        if theirs["total"] != mine["total"]:
            lines.append(f"{mine['name']}: {theirs['total']} in all, not {mine['total']}")
        for frame in sorted(mine["frames"].keys() | theirs["frames"].keys()):
            ours, other = mine["frames"].get(frame), theirs["frames"].get(frame)
            if ours != other:
                lines.append(f"{mine['name']}: {frame}: {other}, not {ours}")
    return lines


def tell(path: str, found: list[dict], lines: list[str]) -> bool:
    """Prints a line a file, and what differs; says whether nothing does."""
    frames = sum(len(lane["frames"]) for lane in found)
    counts = f"{len(found)} profiles, {frames} frames"
    print(f"{Path(path).name}: {counts}", "DIFFER" if lines else "as in our CSV")
    for line in lines[:10]:
        print(f"    {line}")
    return not lines
