"""Run folders in, one HTML page or figure files out; never a live model."""
