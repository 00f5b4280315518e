"""Further experiments of the papers, as scripts that use the library: `python -m experiments.NAME --help`."""
