"""The wheel, built from a clean tree and installed in an empty environment, runs the command line.

Not collected with the tests, since it installs every dependency anew: `make wheel` runs it, as CI does.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*command: str | Path, cwd: Path) -> str:
    result = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{command}: {result.stdout[-2000:]}{result.stderr[-2000:]}"
    return result.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    listed = run("git", "ls-files", "-co", "--exclude-standard", cwd=ROOT).split()
    for name in listed:
        target = folder / "tree" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    run(sys.executable, "-m", "build", "--wheel", "--outdir", folder / "dist", cwd=folder / "tree")
    (wheel,) = (folder / "dist").glob("tfdiff-*.whl")
    venv.create(folder / "venv", with_pip=True)
    run(folder / "venv/bin/python", "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel, cwd=folder)
    yield folder
    shutil.rmtree(folder / "venv")


def test_command_line_runs_from_the_wheel(environment: Path) -> None:
    command = environment / "venv/bin/tfdiff"
    assert "run" in run(command, "--help", cwd=environment)
    plan = run(command, "run", "digits", "--dry-run", cwd=environment)
    assert "parameters" in plan
    assert sorted(path.name for path in environment.iterdir()) == ["dist", "tree", "venv"]


def test_nothing_generic_lands_in_site_packages(environment: Path) -> None:
    (wheel,) = (environment / "dist").glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name.split("/")[0].split("-")[0] for name in names} == {"tfdiff"}
    assert {"tfdiff/pipelines/cli.py", "tfdiff/export/worker.py", "tfdiff/pipelines/presets/mnist.yaml"} <= names
