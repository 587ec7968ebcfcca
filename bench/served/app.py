"""What gunicorn serves: a page that costs some Python and some native code."""

import hashlib
import json

from flask import Flask

app = Flask(__name__)


def digest(rows: list[dict[str, object]]) -> str:
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()


def render(rows: list[dict[str, object]]) -> str:
    return "".join(f"<li>{row['name']}: {row['value']}</li>" for row in rows)


@app.route("/")
def page() -> str:
    rows = [{"name": f"row {number}", "value": number * number % 997} for number in range(200)]
    rows.sort(key=lambda row: row["value"])
    return f"<ul>{render(rows)}</ul><p>{digest(rows)}</p>"
