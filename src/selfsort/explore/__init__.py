"""A local web page to look at the clusters of a run and to put them right."""
