#!/usr/bin/env python3
"""Draws what a terminal shows as an SVG picture, for the README.

spanwise report --color always TRACE | docs/images/picture.py > docs/images/report.svg
"""

import html
import re
import sys

ROW, COLUMN, MARGIN = 17, 7.83, 14
COLORS = {
    "1": "fill:#ffffff;font-weight:bold",
    "2": "fill:#8b949e",
    "31": "fill:#ff7b72",
    "32": "fill:#7ee787",
    "33": "fill:#e3b341",
    "34": "fill:#79c0ff",
    "35": "fill:#d2a8ff",
    "36": "fill:#56d4dd",
}


def spans(line: str) -> str:
    """The pieces of a line, each in the colour that was set before it."""
    style, drawn = "", []
    for piece in re.split(r"(\x1b\[[0-9;]*m)", line):
        if code := re.fullmatch(r"\x1b\[([0-9;]*)m", piece):
            styles = [COLORS.get(part, "") for part in code[1].split(";")]
            style = ";".join(part for part in styles if part)
        elif piece:
            text = html.escape(piece).replace(" ", "\u00a0")
            drawn.append(f'<tspan style="{style}">{text}</tspan>' if style else text)
    return "".join(drawn)


def main() -> None:
    """Standard input to standard output."""
    lines = sys.stdin.read().rstrip("\n").split("\n")
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
    width = round(max(map(len, plain)) * COLUMN + 2 * MARGIN)
    height = len(lines) * ROW + 2 * MARGIN
    print(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">\n'
        '<rect width="100%" height="100%" rx="8" fill="#0d1117"/>\n'
        '<g font-family="ui-monospace,Menlo,Consolas,DejaVu Sans Mono,monospace" '
        'font-size="13" fill="#c9d1d9">'
    )
    for number, line in enumerate(lines):
        print(f'<text x="{MARGIN}" y="{MARGIN + (number + 1) * ROW - 4}">{spans(line)}</text>')
    print("</g>\n</svg>")


main()
