"""What a model costs and what its pictures show: parameters, MACs, fidelity, recognised classes."""

from tfdiff.metrics.counting import Counts, LayerCount, count, network_calls, per_image
from tfdiff.metrics.fidelity import snr_db
from tfdiff.metrics.recognition import Recogniser

__all__ = [
    "Counts",
    "LayerCount",
    "Recogniser",
    "count",
    "network_calls",
    "per_image",
    "snr_db",
]
