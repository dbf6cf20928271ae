"""What a model costs and what its pictures show: parameters, MACs, distances, fidelity, recognised classes."""

from tfdiff.metrics.counting import Counts, LayerCount, count, network_calls, per_image
from tfdiff.metrics.denoising import DenoisingLoss, denoising_loss_by_level
from tfdiff.metrics.estimate import Estimate
from tfdiff.metrics.features import FeatureNetwork, keras_features, recogniser_features
from tfdiff.metrics.fidelity import snr_db
from tfdiff.metrics.frechet import frechet_distance
from tfdiff.metrics.inception import inception_fid
from tfdiff.metrics.inception_score import inception_score
from tfdiff.metrics.kernel_distance import SubsetKernelDistance, kernel_distance, subset_kernel_distance
from tfdiff.metrics.neighbours import Neighbours, precision_recall_density_coverage
from tfdiff.metrics.pairwise import PairwiseFidelity
from tfdiff.metrics.protocol import Distance, Protocol, check_sampling, difference, is_significant
from tfdiff.metrics.recognition import Recogniser, orientation_set
from tfdiff.metrics.statistics import FeatureStatistics

__all__ = [
    "Counts",
    "DenoisingLoss",
    "Distance",
    "Estimate",
    "FeatureNetwork",
    "FeatureStatistics",
    "LayerCount",
    "Neighbours",
    "PairwiseFidelity",
    "Protocol",
    "Recogniser",
    "SubsetKernelDistance",
    "check_sampling",
    "count",
    "denoising_loss_by_level",
    "difference",
    "frechet_distance",
    "inception_fid",
    "inception_score",
    "is_significant",
    "keras_features",
    "kernel_distance",
    "network_calls",
    "orientation_set",
    "per_image",
    "precision_recall_density_coverage",
    "recogniser_features",
    "snr_db",
    "subset_kernel_distance",
]
