"""What a run would do, in words: the resolved config, the state of every stage, parameters and multiply-adds."""

from __future__ import annotations

from tfdiff import diffusion, metrics
from tfdiff.data.source import Source
from tfdiff.data.sources import resolve
from tfdiff.pipelines.config import Config
from tfdiff.pipelines.config_file import dump
from tfdiff.pipelines.pipeline import Stage
from tfdiff.pipelines.run_directory import RunDirectory
from tfdiff.pipelines.train_stage import build_network
from tfdiff.pipelines.training_run import check_labels, sampling_of


def describe(config: Config, directory: RunDirectory, stages: tuple[Stage, ...]) -> str:
    """The plan as text. Reads the source's listing and the run directory; writes and downloads nothing.

    Raises:
        DataError: when the source does not exist or lacks labels that the config needs.
    """
    source = resolve(config.data.source)
    classes = None if source.class_names is None else len(source.class_names)
    check_labels(config, classes)
    network = build_network(config, config.data.channels or source.channels, classes)
    counts = metrics.count(network)
    sampling = sampling_of(config)
    lines = [
        dump(config).rstrip(),
        "",
        f"run directory  {directory.path}",
        f"images         {_images(source)}, " + (f"{classes} classes" if classes else "no labels"),
        f"network        {network.name}, {counts.parameters:,} parameters, "
        f"{counts.macs / 1e6:,.1f} M multiply-adds a call",
        f"an image       {_calls(sampling)}, {metrics.per_image(counts, sampling) / 1e6:,.1f} M multiply-adds",
        *_stage_lines(config, directory, stages),
    ]
    return "\n".join(lines)


def _images(source: Source) -> str:
    """Which images and, where that can be told without downloading them, how many."""
    length = source.known_length()
    return f"{source.name}, not downloaded yet" if length is None else f"{length} of {source.name}"


def _calls(sampling: diffusion.Sampling) -> str:
    return f"{metrics.network_calls(sampling)} network calls ({sampling.sampler}, {sampling.num_steps} steps)"


def _stage_lines(config: Config, directory: RunDirectory, stages: tuple[Stage, ...]) -> list[str]:
    lines, before, dirty = [], None, False
    for stage in stages:
        state, reason = directory.state(stage.name, directory.inputs(stage.settings(config), before))
        before = stage.name
        text = {"new": "to do", "begun": "goes on from its last checkpoint", "finished": "finished"}.get(
            state, f"begins anew ({reason})"
        )
        # What follows a stage that runs will find another summary before it.
        if dirty and state == "finished":
            text = "runs again after the stage before it"
        dirty = dirty or state != "finished"
        lines.append(f"{stage.name:<14} {text}")
    return lines
