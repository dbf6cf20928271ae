"""MODEL_CARD.md: what a bundle draws, what it was made from, how good it is and its limits (Mitchell et al. 2019)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfdiff.export.manifest import NETWORK, VERIFICATION, Bundle
from tfdiff.files import sha256, write_text

CARD, QUALITY = "MODEL_CARD.md", "quality.json"

#: True of every model that a bundle may hold, whatever was measured.
_GENERAL_LIMITS = (
    "It draws pictures like those that it was trained on, and nothing else; it inherits what they show, and what they "
    "leave out.",
    "Whether it repeats single training pictures was not examined.",
    "Times and delegate partitions are those of the machine that measured them; measure on the phone that is meant.",
)


def write_card(directory: str | Path) -> Path:
    """Write the card of a bundle from what lies in it: bundle.json, and verify.json and quality.json where they exist.

    Each step that learns more about a bundle writes the card anew: `bundle` from the facts that it is given, `verify`
    with what the files measure, and the evaluation with the quality of what they draw.

    Args:
        directory: of the bundle.

    Returns:
        The path of the card.

    Raises:
        UsageError: when the directory holds no bundle.
    """
    exported = Bundle.load(directory)
    facts = exported.manifest.get("facts") or {}
    verified = _read(exported.directory / VERIFICATION)
    quality = _read(exported.directory / QUALITY)
    sections = [
        _head(exported, facts),
        _use(exported),
        _section("Training data", _bullets(facts.get("data"))),
        _section("Recipe", _bullets(facts.get("recipe"))),
        _section("Lineage", [*_bullets(facts.get("lineage")), *_origin(exported)]),
        _files(exported, verified.get("files") or {}, quality.get("candidates") or []),
        _quality(quality),
        _section("Limits", _limits(verified, quality)),
    ]
    path = exported.directory / CARD
    write_text(path, "\n\n".join(section for section in sections if section) + "\n")
    return path


def record_quality(directory: str | Path, quality: Mapping[str, Any]) -> None:
    """Keep an evaluation in a bundle as quality.json, and write its card anew.

    Args:
        directory: of the bundle.
        quality: `protocol` (how distances were measured), `candidates` (a row per model and file, with `name` and
            figures) and `notes` (sentences).
    """
    write_text(Path(directory) / QUALITY, json.dumps(quality, indent=1, allow_nan=False) + "\n")
    write_card(directory)


def _head(exported: Bundle, facts: Mapping[str, Any]) -> str:
    manifest = exported.manifest
    image, sampling = manifest["image"], manifest["sampling"]
    classes = manifest["class_names"] or ([] if manifest["num_classes"] is None else range(manifest["num_classes"]))
    drawn = f"of {len(classes)} classes ({_shortened(map(str, classes))})" if classes else "without classes"
    guidance = f", guidance {sampling['guidance_scale']:g}" if sampling["guidance_scale"] != 1 else ""
    kind = "grey" if image["channels"] == 1 else "colour"
    return (
        f"# Model card: {facts.get('name', exported.directory.resolve().name)}\n\n"
        f"A diffusion model that draws {image['width']}×{image['height']} {kind} pictures {drawn} in "
        f"{sampling['num_steps']} steps ({sampling['sampler']}{guidance}), exported for LiteRT and ONNX Runtime by "
        f"tfdiff {manifest['tools']['tfdiff']}."
    )


def _use(exported: Bundle) -> str:
    image = exported.manifest["image"]
    shape = f"({exported.manifest['batch_size']}, {image['height']}, {image['width']}, {image['channels']})"
    inputs = f"`noise` {shape}, unit normal"
    if exported.manifest["num_classes"]:
        inputs += f", and `label` ({exported.manifest['batch_size']}, {exported.manifest['num_classes']}), one-hot"
        inputs += " (all zeros: no class)"
    return _section(
        "Use",
        [
            f"- `sample_*` files draw a picture in one call: {inputs} → `image` {shape} in [−1, 1], float32.",
            "- `denoise_*` files are one network call; `bundle.json` holds the numbers and the formula of each step.",
        ],
    )


def _origin(exported: Bundle) -> list[str]:
    lines = []
    network = exported.directory / NETWORK
    if network.exists():
        lines.append(f"- **network.keras**: SHA-256 `{sha256(network)}`")
    tools = ", ".join(f"{name} {version}" for name, version in exported.manifest["tools"].items())
    return [*lines, f"- **tools**: {tools}"]


def _files(exported: Bundle, verified: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    times = {row["name"]: row.get("ms_per_image") for row in rows}
    lines = [
        "| file | bytes | gzip | zeros | SNR to Keras, dB | delegate partitions | ms a picture | SHA-256 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for file in exported.manifest["files"]:
        name, found = file["name"], verified.get(file["name"], {})
        cells = (
            f"{file['bytes']:,}",
            _text(found.get("gzip_bytes"), ","),
            _text(found.get("zero_fraction"), ".1%"),
            _text(found.get("snr_db"), ".1f"),
            _text(found.get("partitions"), "d"),
            _text(times.get(name), ".3g"),
            f"`{file['sha256'][:12]}…`",
        )
        lines.append(f"| {name} | {' | '.join(cells)} |")
    note = [] if verified else ["", "Not verified yet: `tfdiff.export.verify` measures every file against Keras."]
    return _section("Files", [*lines, *note])


def _quality(quality: Mapping[str, Any]) -> str:
    rows = quality.get("candidates")
    if not rows:
        return _section("Quality", ["Not measured yet: `tfdiff evaluate` scores what the files draw."])
    columns = {
        "FID": ("fid", ".2f"),
        "KID": ("kid", ".4f"),
        "precision": ("precision", ".3f"),
        "recall": ("recall", ".3f"),
        "recognised": ("recognised", ".1%"),
    }
    lines = [f"| drawn by | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for row in rows:
        cells = (_interval(row.get(key), form) for key, form in columns.values())
        lines.append(f"| {row['name']} | {' | '.join(cells)} |")
    protocol = quality.get("protocol") or {}
    measured = [f"{key.replace('_', ' ')}: {_plain(value)}" for key, value in protocol.items()]
    return _section("Quality", [*lines, "", "95 % intervals in brackets. Measured with " + "; ".join(measured) + "."])


def _limits(verified: Mapping[str, Any], quality: Mapping[str, Any]) -> list[str]:
    failed = [f"- {name} failed verification: {reason}" for name, reason in (verified.get("failed") or {}).items()]
    measured = [f"- {note}" for note in quality.get("notes") or ()]
    return [*failed, *measured, *(f"- {limit}" for limit in _GENERAL_LIMITS)]


def _section(title: str, lines: Iterable[str]) -> str:
    """A heading and its lines; nothing where there are none."""
    text = "\n".join(lines)
    return f"## {title}\n\n{text}" if text else ""


def _bullets(facts: Mapping[str, Any] | None) -> list[str]:
    return [f"- **{key.replace('_', ' ')}**: {_plain(value)}" for key, value in (facts or {}).items()]


def _interval(figure: Mapping[str, Any] | None, form: str) -> str:
    if figure is None:
        return "–"
    value, low, high = (figure.get(key) for key in ("value", "low", "high"))
    text = _text(value, form)
    return text if low is None or high is None else f"{text} [{low:{form}}, {high:{form}}]"


def _text(value: Any, form: str) -> str:
    return "–" if value is None else format(value, form)


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_plain(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return _shortened(map(_plain, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else f"{value}"


def _shortened(words: Iterable[str], limit: int = 12) -> str:
    words = list(words)
    return ", ".join(words[:limit]) + (f" and {len(words) - limit} more" if len(words) > limit else "")


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
