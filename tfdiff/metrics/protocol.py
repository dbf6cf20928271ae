"""Distances that know how they were measured, and refuse to be compared with those that were measured otherwise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tfdiff.errors import UsageError
from tfdiff.metrics.estimate import Estimate, confidence_interval


@dataclass(frozen=True)
class Protocol:
    """How a distance was measured.

    Attributes:
        features: name of the feature network.
        features_hash: of its weights and preprocessing.
        reference: fingerprint of the real images.
        reference_images, images: how many, real and drawn.
        sampling: `diffusion.Sampling.config()` of what drew: sampler, num_steps, guidance_scale, noise levels.
        seed: of the starting noise.
    """

    features: str
    features_hash: str
    reference: str
    reference_images: int
    images: int
    sampling: Mapping[str, Any]
    seed: int

    def to_json(self) -> dict[str, Any]:
        """Plain values: `Protocol(**protocol.to_json())` equals protocol."""
        return asdict(self)

    def check(self, other: Protocol, across: Sequence[str] = ()) -> None:
        """Refuse where the two differ in anything but what of the sampling `across` names.

        Raises:
            UsageError: naming each difference with both values, or a name in `across` that is none of the sampling's.
        """
        fields = {key: (getattr(self, key), getattr(other, key)) for key in asdict(self) if key != "sampling"}
        _refuse({**fields, **_sampling_fields(self.sampling, other.sampling, across)})


@dataclass(frozen=True)
class Distance:
    """A figure of drawn pictures and how it was measured.

    Attributes:
        metric: such as "fid".
        value: the figure.
        replicates: of the value, each without one group of pictures (see `Estimate`).
        protocol: how it was measured.
    """

    metric: str
    value: float
    replicates: tuple[float, ...]
    protocol: Protocol

    @classmethod
    def of(cls, metric: str, estimate: Estimate, protocol: Protocol) -> Distance:
        """An estimate with its protocol."""
        return cls(metric, estimate.value, estimate.replicates, protocol)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval, or None."""
        return confidence_interval(self.value, self.replicates)

    def __lt__(self, other: Distance) -> bool:
        return difference(self, other).value < 0

    def to_json(self) -> dict[str, Any]:
        """Plain values, which `from_json` reads."""
        return {**asdict(self), "replicates": list(self.replicates)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Distance:
        """What `to_json` gave."""
        return cls(values["metric"], values["value"], tuple(values["replicates"]), Protocol(**dict(values["protocol"])))


def difference(a: Distance, b: Distance, *, across: Sequence[str] = ()) -> Estimate:
    """a − b. Pictures of equal seeds pair the two, so that its error is often far smaller than theirs.

    Args:
        a, b: of one metric and one protocol.
        across: what of the sampling may differ on purpose, such as ("num_steps",).

    Raises:
        UsageError: naming what the two differ in.
    """
    if a.metric != b.metric:
        raise UsageError(f"{a.metric} and {b.metric} cannot be compared: give two of one metric.")
    a.protocol.check(b.protocol, across)
    paired = len(a.replicates) == len(b.replicates)
    replicates = tuple((np.array(a.replicates) - np.array(b.replicates)).tolist()) if paired else ()
    return Estimate(a.value - b.value, replicates)


def is_significant(estimate: Estimate) -> bool:
    """Whether the 95 % interval leaves 0 out; False where there is no interval."""
    interval = estimate.interval
    # Equal pictures have a difference of 0 with no error at all.
    return interval is not None and (interval[0] > 0 or interval[1] < 0)


def check_sampling(a: Mapping[str, Any], b: Mapping[str, Any], across: Sequence[str] = ()) -> None:
    """Refuse two ways of drawing (`Sampling.config()`) that differ in anything but `across`.

    Raises:
        UsageError: naming each difference with both values.
    """
    _refuse(_sampling_fields(a, b, across))


def _sampling_fields(a: Mapping[str, Any], b: Mapping[str, Any], across: Sequence[str]) -> dict[str, tuple[Any, Any]]:
    keys = dict.fromkeys([*a, *b])
    for name in across:
        if name not in keys:
            raise UsageError(f"across={name!r} is nothing that sampling has: use {', '.join(keys)}.")
    return {key: (a.get(key), b.get(key)) for key in keys if key not in across}


def _refuse(fields: Mapping[str, tuple[Any, Any]]) -> None:
    found = [f"{key} ({_short(a)} and {_short(b)})" for key, (a, b) in fields.items() if not _equal(a, b)]
    if found:
        raise UsageError(
            f"these distances cannot be compared, they differ in {', '.join(found)}: measure both alike, or name what "
            "of the sampling differs on purpose with across."
        )


def _equal(a: Any, b: Any) -> bool:
    return a == b or (isinstance(a, float) and isinstance(b, float) and math.isclose(a, b))


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 24 else f"{text[:12]}…"
