"""The command line. Stages are commands; `run` is all of them; `bench`, `sample` and `info` look at results."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from tfdiff.pipelines.config import Config
from tfdiff.pipelines.config_file import load_config, parse_overrides, preset_names
from tfdiff.pipelines.console import session
from tfdiff.pipelines.pipeline import run, stages_until
from tfdiff.pipelines.run_directory import RunDirectory
from tfdiff.pipelines.tensorflow_import import import_tensorflow

_MODEL_FILES = (".keras", ".tflite", ".onnx")

app = typer.Typer(
    help="Train Keras diffusion models, make them sparse, and ship them as TFLite and ONNX files.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Source = Annotated[
    str,
    typer.Argument(
        metavar="CONFIG_OR_RUN", help=f"A preset ({', '.join(preset_names())}), a YAML file or a run directory."
    ),
]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replace a setting, such as train.steps=200.")
]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Run directory; by default runs/NAME.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the resolved plan with its costs, and touch nothing.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show what TensorFlow and the libraries log.")]


def _add_stage_command(name: str, until: str, summary: str, *, again: str | None = None) -> None:
    """Register a command that runs the stages up to `until`."""

    def command(
        source: Source,
        settings: Set = None,
        out: Out = None,
        dry_run: DryRun = False,
        debug: Debug = False,
        verbose: Verbose = False,
    ) -> None:
        options = [text for setting in settings or [] for text in ("--set", setting)] + (
            ["--out", str(out)] if out else []
        )
        with session(debug=debug, verbose=verbose, resume=shlex.join(["tfdiff", name, source, *options])):
            config = load_config(source, parse_overrides(settings or []))
            directory = _directory(source, config, out)
            if dry_run:
                import_tensorflow()
                from tfdiff.pipelines.plan import describe

                typer.echo(describe(config, directory, stages_until(until)))
                return
            run(config, directory.path, until=until, again=again, log=typer.echo)
            if until == "report":
                typer.echo(directory.path / "report.html")

    app.command(name, help=summary)(command)


_add_stage_command("run", "report", "Train, sparsify, export, verify and report; finished stages are skipped.")
_add_stage_command("train", "train", "Train the dense model.")
_add_stage_command("sparsify", "sparsify", "Prune the trained model while training on.")
_add_stage_command("export", "export", "Write the TFLite and ONNX files.")
_add_stage_command("verify", "verify", "Compare every file with the model it came from.", again="verify")


@app.command()
def bench(
    source: Source,
    images: Annotated[int, typer.Option("-n", min=1, help="Pictures that each file draws.")] = 30,
    threads: Annotated[int, typer.Option(min=1, help="Threads of each runtime.")] = 1,
    statistics: Annotated[
        bool, typer.Option("--statistics", help="Also measure how fast pictures become FID's statistics.")
    ] = False,
    debug: Debug = False,
    verbose: Verbose = False,
) -> None:
    """Time a run's files alternately, with the Keras model beside them."""
    with session(debug=debug, verbose=verbose):
        import_tensorflow()
        from tfdiff.pipelines.results import benchmark_text, statistics_text

        typer.echo(benchmark_text(_run_directory(source), images, threads))
        if statistics:
            typer.echo(statistics_text(_run_directory(source)))


@app.command()
def sample(
    source: Annotated[str, typer.Argument(metavar="RUN", help="A run directory.")],
    file: Annotated[
        str | None,
        typer.Option(
            "--file", help="A sample_* file or .keras model, in the run or elsewhere; by default the final model."
        ),
    ] = None,
    images: Annotated[int, typer.Option("-n", min=1, help="Pictures to draw.")] = 64,
    label: Annotated[int | None, typer.Option(min=0, help="Class of all of them; by default each in turn.")] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    output: Annotated[Path, typer.Option("-o", help="PNG to write.")] = Path("samples.png"),
    debug: Debug = False,
    verbose: Verbose = False,
) -> None:
    """Draw a grid of pictures with a run's model or with one of its files."""
    with session(debug=debug, verbose=verbose):
        import_tensorflow()
        from tfdiff.pipelines.results import draw_grid

        typer.echo(draw_grid(_run_directory(source), file, images, label, seed, output))


@app.command()
def generate(
    source: Annotated[
        str, typer.Argument(metavar="RUN_OR_FILE", help="A run directory, or a .keras, .tflite or .onnx file.")
    ],
    file: Annotated[
        str | None, typer.Option("--file", help="A file of the run that draws; by default its final model.")
    ] = None,
    images: Annotated[int, typer.Option("-n", min=1, help="Pictures to draw.")] = 1000,
    label: Annotated[int | None, typer.Option(min=0, help="Class of all of them; by default each in turn.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Picture i depends on the seed and i alone.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Processes that draw.")] = 1,
    threads: Annotated[int, typer.Option(min=1, help="Threads of each file's runtime.")] = 1,
    output: Annotated[
        Path, typer.Option("-o", help="An .npz file, or a folder for PNG files; go on with the same command.")
    ] = Path("pictures.npz"),
    debug: Debug = False,
    verbose: Verbose = False,
) -> None:
    """Draw any number of pictures into an .npz or a folder of PNG files."""
    with session(debug=debug, verbose=verbose, resume="the same command"):
        import_tensorflow()
        from tfdiff.pipelines.results import generate_pictures

        typer.echo(generate_pictures(source, file, images, label, seed, workers, threads, output))


Images = Annotated[int, typer.Option("-n", min=2, help="Pictures that each candidate draws.")]
Features = Annotated[
    str,
    typer.Option(
        metavar="own|inception:PATH|PATH",
        help="Feature network of distances: trained on the real pictures, the published FID weights, or a Keras model.",
    ),
]
RealData = Annotated[
    str | None, typer.Option("--data", metavar="SOURCE", help="Real pictures; by default those of the run.")
]
Seed = Annotated[int, typer.Option(min=0, help="Of the starting noise, which all candidates share.")]
Workers = Annotated[int, typer.Option(min=1, help="Processes that draw.")]
Threads = Annotated[int, typer.Option(min=1, help="Threads of each file's runtime.")]
CompareOut = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Where the page and the pictures go.")]


@app.command()
def evaluate(
    source: Annotated[
        str, typer.Argument(metavar="RUN_OR_FILE", help="A run directory, or a .keras, .tflite or .onnx file.")
    ],
    images: Images = 1024,
    features: Features = "own",
    data: RealData = None,
    seed: Seed = 1000,
    workers: Workers = 1,
    threads: Threads = 1,
    out: CompareOut = None,
    debug: Debug = False,
    verbose: Verbose = False,
) -> None:
    """Score what a run's models and files draw, and what they cost: a table and a page."""
    _compare([source], (), images, features, data, seed, workers, threads, out, debug, verbose)


@app.command()
def compare(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="A B…", help="Runs, .keras, .tflite and .onnx files; the first is the baseline."),
    ],
    across: Annotated[
        list[str] | None,
        typer.Option(metavar="SETTING", help="What of the sampling differs on purpose, such as num_steps; repeatable."),
    ] = None,
    images: Images = 1024,
    features: Features = "own",
    data: RealData = None,
    seed: Seed = 1000,
    workers: Workers = 1,
    threads: Threads = 1,
    out: CompareOut = None,
    debug: Debug = False,
    verbose: Verbose = False,
) -> None:
    """Draw with every candidate from the same noise, and say which file to ship: a table and a page."""
    _compare(sources, tuple(across or ()), images, features, data, seed, workers, threads, out, debug, verbose)


def _compare(
    sources: list[str],
    across: tuple[str, ...],
    images: int,
    features: str,
    data: str | None,
    seed: int,
    workers: int,
    threads: int,
    out: Path | None,
    debug: bool,
    verbose: bool,
) -> None:
    again = shlex.join(["tfdiff", "compare" if len(sources) > 1 else "evaluate", *sources])
    with session(debug=debug, verbose=verbose, resume=again):
        import_tensorflow()
        from tfdiff.pipelines.evaluation.comparison import Settings, compare
        from tfdiff.pipelines.evaluation.output import table_text

        settings = Settings(
            images=images, features=features, data=data, seed=seed, across=across, threads=threads, workers=workers
        )
        page, comparison = compare(sources, settings, out)
        typer.echo(table_text(comparison))
        typer.echo(page)


@app.command()
def info(
    source: Annotated[
        str, typer.Argument(metavar="WHAT", help="A run, preset, config, .keras model, .tflite or .onnx file.")
    ],
    debug: Debug = False,
    verbose: Verbose = False,
) -> None:
    """Say what a run, a file or a preset holds."""
    with session(debug=debug, verbose=verbose):
        config = None if Path(source).suffix in _MODEL_FILES else load_config(source)
        import_tensorflow()
        if config is None:
            from tfdiff.pipelines.results import file_text

            typer.echo(file_text(Path(source)))
            return
        from tfdiff.pipelines.plan import describe

        typer.echo(describe(config, _directory(source, config, None), stages_until("report")))


def main() -> None:
    """Entry point of `tfdiff`."""
    app()


def _directory(source: str, config: Config, out: Path | None) -> RunDirectory:
    """Where a run goes: `out`, else the run directory that was named, else runs/NAME."""
    named = Path(source) if source not in preset_names() and Path(source).is_dir() else None
    return RunDirectory(out or named or Path("runs") / config.name)


def _run_directory(source: str) -> RunDirectory:
    """The existing run that `source` (a run directory, preset or config) means."""
    return _directory(source, load_config(source), None)
