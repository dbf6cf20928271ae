"""What a report says in words about its own figures: what helped, and what did not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def findings(report: Mapping[str, Any]) -> list[str]:
    """One sentence or two per finding, each from figures of the report.

    Args:
        report: report.json without its notes.
    """
    files = {file["name"]: file for file in report["files"]}
    return [*_zeros(files), *_int8(files), *_fastest(files, report["keras"], report["environment"])]


def _zeros(files: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Zeros against bytes: files store them as they store other numbers."""
    file = files.get("sample_float32.tflite")
    if file is None or not file["zero_fraction"] or file["zero_fraction"] < 0.05:
        return []
    return [
        f"{file['zero_fraction']:.0%} of the prunable weights in {file['name']} are zero, yet they are stored and "
        "multiplied like any other number: the file is not smaller or faster for them. Compressed it is: "
        f"{file['bytes'] / 1000:,.0f} kB become {file['gzip_bytes'] / 1000:,.0f} kB with gzip, which "
        "is what a download costs."
    ]


def _int8(files: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """INT8 against float32 in each runtime: size, speed as measured, and fidelity."""
    notes = []
    for runtime in ("tflite", "onnx"):
        full, small = files.get(f"sample_float32.{runtime}"), files.get(f"sample_int8.{runtime}")
        if full is None or small is None:
            continue
        ratio = full["ms_per_image"] / small["ms_per_image"]
        speed = (
            f"{ratio:.1f}× as fast as"
            if ratio >= 1.05
            else f"{1 / ratio:.1f}× slower than"
            if ratio <= 0.95
            else "no faster than"
        )
        notes.append(
            f"{small['name']} has {small['bytes'] / full['bytes']:.0%} of the bytes of {full['name']} and here is "
            f"{speed} it ({small['ms_per_image']:.3g} against {full['ms_per_image']:.3g} ms a picture), at "
            f"{_decibels(small['snr_db'])}. Other processors differ: measure on yours."
        )
    return notes


def _fastest(
    files: Mapping[str, Mapping[str, Any]], keras: Mapping[str, Any], environment: Mapping[str, Any]
) -> list[str]:
    """The fastest sampler file against the Keras model, and how much of the processor each had."""
    samplers = [file for name, file in files.items() if name.startswith("sample_")]
    if not samplers:
        return []
    best = min(samplers, key=lambda file: file["ms_per_image"])
    threads = environment["threads"]
    return [
        f"The fastest file is {best['name']}: {best['ms_per_image']:.3g} ms a picture on "
        f"{threads} thread{'s' if threads > 1 else ''}, against {keras['ms_per_image']:.3g} ms of the Keras model, "
        "which uses all cores."
    ]


def _decibels(snr: float | None) -> str:
    return "no difference" if snr is None else f"{snr:.1f} dB"
