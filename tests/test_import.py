"""`import tfdiff` settles on Keras 2 in either import order, or says why it cannot."""

import ast
import configparser
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(code: str) -> subprocess.CompletedProcess:
    environment = {key: value for key, value in os.environ.items() if key != "TF_USE_LEGACY_KERAS"}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "order",
    [
        "import tfdiff, tensorflow as tf",
        "import tensorflow as tf; import tfdiff",
        "import os; os.environ['TF_USE_LEGACY_KERAS'] = '0'; import tfdiff, tensorflow as tf",
    ],
    ids=["first", "second", "variable set to 0"],
)
def test_keras_2_in_either_order(order):
    result = run(f"{order}; print(tf.keras.Model.__module__)")
    assert result.stdout.startswith("tf_keras."), result.stderr


@pytest.mark.slow
def test_keras_3_in_use_raises_and_names_the_fix():
    result = run("import tensorflow as tf; tf.keras.Model; import tfdiff")
    assert result.returncode == 1
    assert "ImportError: tfdiff needs Keras 2" in result.stderr
    assert "TF_USE_LEGACY_KERAS=1" in result.stderr


def test_import_loads_no_tensorflow():
    result = run("import sys, tfdiff; print('tensorflow' in sys.modules)")
    assert result.stdout.strip() == "False", result.stderr


#: Package → the tfdiff packages that it may import.
ARROWS = {
    "diffusion": set(),
    "data": set(),
    "networks": {"diffusion"},
    "training": {"diffusion", "networks", "data", "metrics"},
    "sparsity": {"diffusion", "networks", "data", "training"},
    "metrics": {"diffusion", "networks", "data"},
    "export": {"diffusion", "networks", "sparsity", "metrics"},
}


@pytest.mark.parametrize("package", ARROWS)
def test_imports_go_one_way(package):
    folder = ROOT / ("export" if package == "export" else f"tfdiff/{package}")
    allowed = ARROWS[package] | {package, "errors", "files"}
    for path in folder.glob("**/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "tfdiff":
                rest = node.module.split(".")[1:]
                names = rest[:1] or [alias.name for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name.split(".")[1] for alias in node.names if alias.name.startswith("tfdiff.")]
            for name in names:
                assert name in allowed or name == "__version__", f"{path} imports tfdiff.{name}"


def test_setup_cfg_lists_every_package():
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    listed = set(parser["options"]["packages"].split())
    library = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "tfdiff").glob("**/__init__.py")}
    mapped = {
        "tfdiff." + ".".join(path.parent.relative_to(ROOT).parts)
        for name in ("pipelines", "export")
        for path in (ROOT / name).glob("**/__init__.py")
    }
    assert listed == library | mapped
