"""Distances compare where they were measured alike, and nowhere else."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tfdiff.errors import UsageError
from tfdiff.metrics import Distance, Estimate, Protocol, check_sampling, difference, is_significant

SAMPLING = {"sampler": "euler", "num_steps": 5, "guidance_scale": 1.5, "options": {}}
PROTOCOL = Protocol("own", "ab12", "real", 4500, 512, SAMPLING, 1000)


def distance(value: float, spread: float = 0.0, **changes: Any) -> Distance:
    replicates = tuple(value + spread * np.sin(np.arange(10.0)))
    return Distance.of("fid", Estimate(value, replicates), replace(PROTOCOL, **changes))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"features_hash": "cd34"}, r"features_hash \(ab12 and cd34\)"),
        ({"reference_images": 500}, r"reference_images \(4500 and 500\)"),
        ({"images": 1024}, r"images \(512 and 1024\)"),
        ({"seed": 0}, r"seed \(1000 and 0\)"),
        ({"sampling": {**SAMPLING, "num_steps": 4}}, r"num_steps \(5 and 4\)"),
        ({"sampling": {**SAMPLING, "sampler": "heun", "guidance_scale": 1.0}}, "sampler.*guidance_scale"),
    ],
)
def test_refuses_other_protocols(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        difference(distance(3.0), distance(2.0, **changes))
    with pytest.raises(UsageError, match=expected):
        assert distance(3.0) < distance(2.0, **changes)


def test_sampling_may_differ_on_purpose_and_nothing_else_may() -> None:
    other = distance(2.0, sampling={**SAMPLING, "num_steps": 4})
    assert difference(distance(3.0), other, across=["num_steps"]).value == 1.0
    with pytest.raises(UsageError, match="across='seed' is nothing that sampling has: use sampler, num_steps"):
        difference(distance(3.0), other, across=["seed"])
    with pytest.raises(UsageError, match="num_steps"):
        check_sampling(SAMPLING, {**SAMPLING, "num_steps": 4})


def test_refuses_two_metrics() -> None:
    with pytest.raises(UsageError, match="fid and kid"):
        difference(distance(1.0), replace(distance(1.0), metric="kid"))


def test_pairs_cancel_what_they_share() -> None:
    a, b = distance(3.0, spread=0.5), distance(2.0, spread=0.5)
    assert a.interval is not None
    assert a.interval[0] < 2.0  # overlapping intervals, and yet:
    paired = difference(a, b)
    assert paired.interval == pytest.approx((1.0, 1.0))
    assert is_significant(paired)
    assert not is_significant(difference(a, a))
    assert b < a


def test_interval_is_students() -> None:
    """Of a mean, the jackknife's error is the textbook's s/√n."""
    values = np.random.default_rng(0).standard_normal(10)
    estimate = Estimate(values.mean(), tuple(np.mean(np.delete(values, i)) for i in range(10)))
    assert estimate.standard_error == pytest.approx(values.std(ddof=1) / np.sqrt(10))
    assert estimate.interval is not None
    assert (estimate.interval[1] - estimate.value) / estimate.standard_error == pytest.approx(2.2622, abs=1e-4)
    assert Estimate(1.0).interval is None


def test_json_and_back() -> None:
    before = distance(3.0, spread=0.1)
    assert Distance.from_json(json.loads(json.dumps(before.to_json()))) == before
