"""From a config to artefacts: `load_config`, the stages and the command line.

    config = load_config("digits", {"train.steps": 200})
    run(config, "runs/quick")

Nothing here loads TensorFlow until a stage runs: a bad config is refused at once.
"""

from tfdiff.pipelines.config import Config
from tfdiff.pipelines.config_file import load_config, preset_names
from tfdiff.pipelines.pipeline import STAGES, Stage, run
from tfdiff.pipelines.run_directory import RunDirectory

__all__ = ["STAGES", "Config", "RunDirectory", "Stage", "load_config", "preset_names", "run"]
