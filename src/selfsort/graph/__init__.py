"""Graphs of images: nearest neighbours, affinities between them, and merging clusters along them.

Import from the modules (`knn`, `affinity`, `agglomerate`); only `knn` loads torch.
"""
