"""Schedules that reach their target, and those that cannot, said before training."""

import numpy as np
import pytest

from tfdiff.errors import UsageError
from tfdiff.sparsity import ConstantSparsity, MagnitudePruning, PolynomialDecay, check_reaches_target, reached_sparsity


@pytest.mark.parametrize("steps", [3, 10, 77, 1000, 12345])
@pytest.mark.parametrize("end", [0.5, 1.0])
def test_polynomial_always_reaches_its_target(steps, end):
    schedule = MagnitudePruning.polynomial(0.8, steps, end=end).schedule
    assert reached_sparsity(schedule, steps) == pytest.approx(0.8, abs=1e-6)
    assert schedule.end_step <= steps


def test_reached_sparsity_is_the_last_mask_that_is_due():
    schedule = PolynomialDecay(0.0, 0.8, begin_step=0, end_step=100, power=3, frequency=30)
    # Masks at 30, 60 and 90: the last one before 80 is at 60.
    assert reached_sparsity(schedule, 80) == pytest.approx(0.8 - 0.8 * 0.4**3, rel=1e-5)
    assert np.isnan(reached_sparsity(schedule, 29))


@pytest.mark.parametrize(
    ("schedule", "steps", "found"),
    [
        (PolynomialDecay(0.0, 0.8, 0, 1000, frequency=100), 500, "gets to 70.0%"),
        (PolynomialDecay(0.0, 0.8, 0, 100, frequency=100), 99, "gets to no mask at all"),
        (PolynomialDecay(0.0, 0.8, 0, 100, power=1, frequency=60), 1000, "gets to 48.0%"),
        (ConstantSparsity(0.5, begin_step=10, frequency=10), 9, "gets to no mask at all"),
    ],
)
def test_unreachable_target_is_refused_with_what_would_be_reached(schedule, steps, found):
    with pytest.raises(UsageError, match=f"cannot be reached in {steps} training steps") as caught:
        check_reaches_target(schedule, steps)
    assert found in str(caught.value)
    assert "\n" not in str(caught.value)


def test_steps_after_the_last_mask_do_not_matter():
    check_reaches_target(PolynomialDecay(0.0, 0.8, 0, 100, frequency=10), 150)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sparsity": 1.0, "steps": 10}, "sparsity=1.0"),
        ({"sparsity": 0.0, "steps": 10}, "sparsity=0.0"),
        ({"sparsity": 0.5, "steps": 10, "initial_sparsity": 0.6}, "initial_sparsity=0.6"),
        ({"sparsity": 0.5, "steps": 10, "end": 1.5}, "end=1.5"),
        ({"sparsity": 0.8, "steps": 10, "frequency": 20}, "cannot be reached in 10"),
    ],
)
def test_wrong_arguments_are_refused_by_name(arguments, message):
    with pytest.raises(UsageError, match=message):
        MagnitudePruning.polynomial(**arguments)
