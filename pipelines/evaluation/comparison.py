"""`compare`: candidates drawn from the same noise, scored, timed, and laid out on a page."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tfdiff
from tfdiff import data, metrics, training
from tfdiff.errors import DataError, UsageError
from tfdiff.export import record_quality
from tfdiff.pipelines.drawing import labels_in_turn
from tfdiff.pipelines.evaluation import costs, denoising, output, pareto, scoring
from tfdiff.pipelines.evaluation.candidates import Candidate, find_candidates
from tfdiff.pipelines.evaluation.yardstick import OWN, Yardstick, make_yardstick, measure, real_batches
from tfdiff.pipelines.generation import Source, generate
from tfdiff.pipelines.machine import processor
from tfdiff.pipelines.picture_store import Pictures
from tfdiff.pipelines.progress import counting_bar, rounds_bar
from tfdiff.pipelines.training_run import prepare_images

#: Pictures of each candidate on the page.
_SHOWN = 12


@dataclass(frozen=True)
class Settings:
    """How candidates are compared.

    Attributes:
        images: pictures that each draws.
        features: of distances: "own", "inception:PATH", or the path of a Keras model or SavedModel.
        data: source of the real pictures in place of that of the candidates' run.
        seed: of the starting noise.
        across: what of the sampling may differ on purpose, such as ("num_steps",).
        denoising_images: held-out pictures of the denoising loss; 0: none.
        rounds: pictures that each draws for its time.
        threads: of each file's runtime.
        workers: processes that draw.
    """

    images: int = 1024
    features: str = OWN
    data: str | None = None
    seed: int = 1000
    across: tuple[str, ...] = ()
    denoising_images: int = 256
    rounds: int = 20
    threads: int = 1
    workers: int = 1


def compare(sources: Sequence[str], settings: Settings, folder: Path | None = None) -> tuple[Path, dict[str, Any]]:
    """Measure everything that `sources` mean and write comparison.html, .json and .csv.

    The first candidate is the baseline of differences. Pictures are kept in `folder`/pictures and drawn on, or used
    again, when the comparison is repeated. Where one run is compared alone, its bundle's model card is written anew.

    Args:
        sources: runs, and .keras, .tflite and .onnx files.
        settings: how.
        folder: receives the files; default: `evaluation` in the run of a single source, else `comparison` here.

    Returns:
        The path of the page, and what comparison.json holds.

    Raises:
        UsageError, DataError, ModelError: before anything is drawn, where candidates cannot be compared.
    """
    candidates = find_candidates(sources)
    folder = folder or _default_folder(sources, candidates)
    models = {c.name: training.load_model(str(c.path)) for c in candidates if not c.exported}
    shape, classes = _check_alike(candidates, settings)
    images, held_out = _real_pictures(candidates, settings, shape)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write to {folder} ({error.strerror}): choose another with --out.") from error
    yardstick = make_yardstick(images, held_out, settings.features, _network_folder(candidates, folder))
    labels = labels_in_turn(settings.images, classes)
    pictures = _draw(candidates, settings, folder)
    comparison = _measure(candidates, models, pictures, labels, yardstick, settings)
    title = " · ".join(Path(source).name for source in sources)
    shown = {"real": _real_examples(images, classes)}
    shown |= {name: output.first_pictures(found.batches(_SHOWN), _SHOWN) for name, found in pictures.items()}
    page = output.write_comparison(folder, title, comparison, shown)
    runs = {candidate.run.path for candidate in candidates if candidate.run}
    if len(sources) == 1 and len(runs) == 1 and any(candidate.exported for candidate in candidates):
        _record(candidates, comparison)
    return page, comparison


def _default_folder(sources: Sequence[str], candidates: Sequence[Candidate]) -> Path:
    run = candidates[0].run
    return run.path / "evaluation" if len(sources) == 1 and run else Path("comparison")


def _network_folder(candidates: Sequence[Candidate], folder: Path) -> Path:
    """Where feature networks lie: in the run, so that its report and every comparison use the same."""
    run = candidates[0].run
    return run.path / "networks" if run else folder / "networks"


def _check_alike(candidates: Sequence[Candidate], settings: Settings) -> tuple[tuple[int, int, int], int | None]:
    """(H, W, C) and classes of all candidates, which must be the same; so must their sampling be."""
    found = {}
    for candidate in candidates:
        drawer = _source(candidate, settings).open()
        found[candidate.name] = (tuple(drawer.image_shape), drawer.num_classes)
    first, *others = candidates
    for other in others:
        for what, a, b in zip(("pictures of", "classes"), found[first.name], found[other.name], strict=True):
            if a != b:
                raise DataError(
                    f"{first.name} draws {what} {a}, {other.name} {b}: only candidates that draw the same can be "
                    "compared."
                )
        metrics.check_sampling(first.sampling.config(), other.sampling.config(), settings.across)
    return found[first.name]  # type: ignore[return-value]


def _real_pictures(
    candidates: Sequence[Candidate], settings: Settings, shape: tuple[int, int, int]
) -> tuple[data.ImageSet, data.ImageSet]:
    """(training pictures, held-out ones) of the candidates' run, or of the source in `settings`."""
    height, _, channels = shape
    config = candidates[0].config
    if settings.data is not None:
        images = data.prepare(settings.data, image_size=height, channels=channels)
        return images.split(0.1)
    if config is None:
        raise UsageError(f"{candidates[0].path} lies in no run, so its training pictures are not known: give --data.")
    for candidate in candidates[1:]:
        if candidate.config is not None and candidate.config.data != config.data:
            raise DataError(
                f"{candidates[0].name} and {candidate.name} were trained on other pictures: name those to measure "
                "against with --data."
            )
    run = candidates[0].run
    assert run is not None
    images = prepare_images(config, run.require("train")["fingerprint"])
    return images.split(config.data.validation, config.seed)


def _source(candidate: Candidate, settings: Settings) -> Source:
    return Source(candidate.path, candidate.sampling.config(), settings.threads)


def _draw(candidates: Sequence[Candidate], settings: Settings, folder: Path) -> dict[str, Pictures]:
    pictures = {}
    for candidate in candidates:
        # Another file under an old name must not take its pictures.
        name = f"{candidate.path.stem}-{candidate.sha256[:12]}-{settings.seed}-{settings.images}.npz"
        with counting_bar(candidate.name, settings.images) as progress:
            store = generate(
                _source(candidate, settings),
                folder / "pictures" / name,
                num_images=settings.images,
                seed=settings.seed,
                workers=settings.workers,
                progress=progress,
            )
        pictures[candidate.name] = Pictures.open(store)
    return pictures


def _measure(
    candidates: Sequence[Candidate],
    models: dict[str, training.DiffusionModel],
    pictures: Mapping[str, Pictures],
    labels: np.ndarray | None,
    yardstick: Yardstick,
    settings: Settings,
) -> dict[str, Any]:
    """What comparison.json holds."""
    scores, fidelity = _score(candidates, pictures, labels, yardstick, settings)
    first = candidates[0]
    metric = "fid" if all("fid" in found.distances for found in scores.values()) else "kid"
    with rounds_bar("benchmark") as rounds:
        times = costs.times(candidates, models, rounds=settings.rounds, threads=settings.threads, progress=rounds)
    with counting_bar("memory", len(candidates), "candidate") as done:
        peaks = costs.memory(candidates, settings.threads, done)
    rows = []
    for candidate in candidates:
        model = models.get(candidate.name)
        loss = None
        if settings.denoising_images:
            loss = denoising.denoising_loss(
                candidate, model, yardstick.held_out, settings.denoising_images, settings.threads
            )
        against = None
        if candidate is not first:
            a, b = scores[candidate.name].distances[metric], scores[first.name].distances[metric]
            difference = metrics.difference(a, b, across=settings.across)
            against = {"difference": scoring.figure(difference), **fidelity[candidate.name]}
        rows.append(
            {
                "name": candidate.name,
                "kind": candidate.kind,
                "path": str(candidate.path),
                "sha256": candidate.sha256,
                "sampling": candidate.sampling.config(),
                **scores[candidate.name].rows(),
                "against_baseline": against,
                **costs.sizes(candidate, model),
                "ms_per_image": times[candidate.name],
                "peak_bytes": peaks[candidate.name],
                "denoising": None if loss is None else loss.to_json(),
            }
        )
    return {
        "baseline": first.name,
        "quality_metric": metric,
        "protocol": scores[first.name].distances["kid"].protocol.to_json(),
        "candidates": rows,
        "real": _real_row(yardstick),
        "fronts": _fronts(rows, metric),
        "recommendation": _recommend(rows, scores, metric, settings),
        "denoising_images": min(settings.denoising_images, len(yardstick.held_out)),
        "notes": list(dict.fromkeys(note for found in scores.values() for note in found.notes)),
        "environment": {
            "tfdiff": tfdiff.__version__,
            "processor": processor(),
            "cores": os.cpu_count(),
            "threads": settings.threads,
        },
    }


def _score(
    candidates: Sequence[Candidate],
    pictures: Mapping[str, Pictures],
    labels: np.ndarray | None,
    yardstick: Yardstick,
    settings: Settings,
) -> tuple[dict[str, scoring.Scores], dict[str, dict[str, float | None]]]:
    """Scores by name, and how close each candidate's pictures are to the baseline's."""
    scores, fidelity = {}, {}
    baseline = pictures[candidates[0].name]
    with counting_bar("score", settings.images * len(candidates)) as progress:
        for candidate in candidates:
            found = pictures[candidate.name]
            protocol = scoring.protocol_of(yardstick, settings.images, candidate.sampling, settings.seed)
            scores[candidate.name] = scoring.score(found.batches(256), labels, yardstick, protocol, progress)
            if found is not baseline:
                fidelity[candidate.name] = scoring.pairwise(
                    baseline.batches(256), found.batches(256), yardstick.features
                )
    return scores, fidelity


def _real_row(yardstick: Yardstick) -> dict[str, Any]:
    """KID of held-out real pictures, what a perfect model would score; unlike FID, it may be of another number."""
    statistics = measure(yardstick.features, real_batches(yardstick.held_out))
    kid = metrics.kernel_distance(yardstick.statistics, statistics)
    return {"images": len(yardstick.held_out), "kid": scoring.figure(kid)}


def _fronts(rows: Sequence[Mapping[str, Any]], metric: str) -> dict[str, list[str]]:
    """Names on the Pareto front of distance against each cost."""
    return {
        cost: pareto.front({row["name"]: (row[cost], row[metric]["value"]) for row in rows if row[cost] is not None})
        for cost in ("ms_per_image", "bytes")
    }


def _recommend(
    rows: Sequence[Mapping[str, Any]], scores: Mapping[str, scoring.Scores], metric: str, settings: Settings
) -> dict[str, Any] | None:
    files = [
        {**{key: row[key] for key in ("name", "ms_per_image", "bytes")}, "quality": row[metric]["value"]}
        for row in rows
        if row["kind"] != "keras"
    ]
    if not files:
        return None
    best = scores[min(files, key=lambda row: row["quality"])["name"]].distances[metric]
    worse = {}
    for row in files:
        found = scores[row["name"]].distances[metric]
        difference = metrics.difference(found, best, across=settings.across)
        worse[row["name"]] = metrics.is_significant(difference) and difference.value > 0
    return pareto.recommend(files, worse)


def _record(candidates: Sequence[Candidate], comparison: Mapping[str, Any]) -> None:
    """Put the quality into the bundle and its model card."""
    bundle = next(c.bundle for c in candidates if c.bundle is not None)
    record_quality(
        bundle.directory,
        {key: comparison[key] for key in ("protocol", "candidates", "notes")},
    )


def _real_examples(images: data.ImageSet, classes: int | None) -> np.ndarray:
    """Real pictures for the page, class by class like the drawn ones: uint8 (n,H,W,C)."""
    rows = np.arange(_SHOWN) % len(images)
    if images.labels is not None and classes is not None:
        by_class = [np.flatnonzero(images.labels == label) for label in range(classes)]
        rows = np.array([by_class[i % classes][i // classes] for i in range(_SHOWN) if len(by_class[i % classes])])
    return np.asarray(images.images[rows])
