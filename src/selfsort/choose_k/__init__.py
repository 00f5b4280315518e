"""A number of clusters from the data: one criterion each, and one rule (`search.choose_k`)."""
