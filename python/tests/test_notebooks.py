"""The notebooks of the documentation, run cell by cell as Jupyter would."""

import ast
import json
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
NOTEBOOKS = sorted(DOCS.rglob("*.ipynb"))


def run_cell(source, names):
    """Runs a cell; gives what its last expression is."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), names)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)


def shown(cell):
    """The text that the notebook shows below a cell."""
    return ["".join(output["data"]["text/plain"]) for output in cell["outputs"]]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_gives_what_it_shows(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    names = {"__name__": "__main__"}
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert cells
    for cell in cells:
        value = run_cell("".join(cell["source"]), names)
        assert shown(cell) == ([] if value is None else [repr(value)]), "".join(cell["source"])


def test_there_is_a_notebook():
    assert NOTEBOOKS
