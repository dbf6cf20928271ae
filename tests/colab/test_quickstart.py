"""The notebook, executed from top to bottom at small settings."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.pipelines.conftest import TINY, write_tiny
from tfdiff.pipelines import RunDirectory

NOTEBOOK = Path(__file__).parents[2] / "colab" / "quickstart.ipynb"


def read() -> nbformat.NotebookNode:
    return nbformat.read(NOTEBOOK, as_version=4)


def parameters_cell(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    (cell,) = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    return cell


def test_notebook_is_valid_and_carries_no_outputs() -> None:
    notebook = read()
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
    assert parameters_cell(notebook) in code


def test_last_cell_prints_files_that_are_exact(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = {"bytes": 1000, "ms_per_image": 2.0}
    files = [{"name": "exact", "snr_db": None, **common}, {"name": "close", "snr_db": 24.71, **common}]
    (tmp_path / "report.json").write_text(json.dumps({"files": files}))
    (tmp_path / "report.html").touch()
    cell = [cell for cell in read().cells if cell.cell_type == "code"][-1]
    exec(cell.source, {"run": lambda *_: RunDirectory(tmp_path), "config": None, "run_directory": None})
    exact, close = capsys.readouterr().out.splitlines()
    assert exact.split() == ["exact", "1,000", "bytes", "exact", "2.0", "ms"]
    assert close.split() == ["close", "1,000", "bytes", "24.7", "dB", "2.0", "ms"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Jupyter's own
def test_notebook_runs(tmp_path: Path) -> None:
    notebook = read()
    parameters_cell(notebook).source = "\n".join(
        [
            f"preset = {str(write_tiny(tmp_path))!r}",
            "overrides = {'report.images': 20, 'verify.images': 4}",
            "run_directory = 'run'",
        ]
    )
    NotebookClient(notebook, timeout=500, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000
    assert f'"name": "{TINY["name"]}"' in (tmp_path / "run" / "report.json").read_text()
