"""Which candidates are worth having, and which file to ship."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: A difference in distance below this share of the best file's counts as none, however surely it was measured.
TOLERANCE = 0.05
#: Files whose times differ by less than this share count as equally fast; then the smaller one is shipped.
SAME_SPEED = 0.05


def front(costs: Mapping[str, tuple[float, float]]) -> list[str]:
    """Names on the Pareto front, by the first cost: no other candidate is as good on both and better on one.

    Args:
        costs: name → two figures of which lower is better.
    """
    ordered = sorted(costs.items(), key=lambda item: item[1])
    members: list[str] = []
    for name, (first, second) in ordered:
        beaten = any(
            other != name and a <= first and b <= second and (a, b) != (first, second) for other, (a, b) in ordered
        )
        if not beaten:
            members.append(name)
    return members


def recommend(files: Sequence[Mapping[str, Any]], measurably_worse: Mapping[str, bool]) -> dict[str, Any] | None:
    """The file to ship: of those that draw as well as the best, the fastest; of equally fast ones, the smallest.

    A file draws worse where its distance exceeds the best file's by more than `TOLERANCE` and the paired interval of
    the difference lies above zero.

    Args:
        files: rows of the exported files, with `name`, `quality`, `ms_per_image` and `bytes`.
        measurably_worse: file → whether the difference to the best file is surely above zero.

    Returns:
        `name`, `best` (the file of the smallest distance) and `reason` in words; None without files.
    """
    scored = [row for row in files if row["quality"] is not None]
    if not scored:
        return None
    best = min(scored, key=lambda row: row["quality"])
    limit = best["quality"] + TOLERANCE * abs(best["quality"])
    good = [row for row in scored if row["quality"] <= limit or not measurably_worse.get(row["name"], True)]
    fastest = min(row["ms_per_image"] for row in good)
    chosen = min(
        (row for row in good if row["ms_per_image"] <= fastest * (1 + SAME_SPEED)), key=lambda row: row["bytes"]
    )
    left_out = [row["name"] for row in scored if row not in good]
    if len(scored) == 1:
        reason = "It is the only file."
    else:
        quality = (
            "It has the smallest distance of all files"
            if chosen is best
            else f"Its pictures are as close to the real ones as those of {best['name']}, within what was measured"
        )
        speed = (
            f"and no file that draws as well is faster than its {chosen['ms_per_image']:.3g} ms a picture "
            f"({chosen['bytes'] / 1000:,.0f} kB)."
        )
        reason = f"{quality}, {speed}"
        if left_out:
            reason += f" Measurably worse: {', '.join(left_out)}."
    return {"name": chosen["name"], "best": best["name"], "reason": reason}
