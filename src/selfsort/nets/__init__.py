"""Networks: torch modules that know nothing of clustering."""
