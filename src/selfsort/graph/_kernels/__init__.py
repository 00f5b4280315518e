"""Compiled loops, and what keeps their tables; private to this room."""
