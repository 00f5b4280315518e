"""Sources in, one uint8 array out; synthetic pictures; augmentation primitives."""

from selfsort.data.arrays import conform, from_array, range_of
from selfsort.data.datasets import Dataset, Fit, ImageSpec, Skipped, as_dataset, fingerprint
from selfsort.data.labels import read_labels
from selfsort.data.read import read_source
from selfsort.data.synthetic import shapes

__all__ = [
    "Dataset",
    "Fit",
    "ImageSpec",
    "Skipped",
    "as_dataset",
    "conform",
    "fingerprint",
    "from_array",
    "range_of",
    "read_labels",
    "read_source",
    "shapes",
]
