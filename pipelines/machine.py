"""What machine figures were measured on."""

from __future__ import annotations

import platform
from pathlib import Path


def processor() -> str:
    """The processor's name, where the system tells."""
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text().splitlines():
            if line.startswith(("model name", "Model")):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
