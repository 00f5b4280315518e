"""Stacks: the same picture twice. Copies, other versions of it, and bursts."""
