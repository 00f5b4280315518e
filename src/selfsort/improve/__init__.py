"""Ours or SCAN's, usable around any method or after it: several starts, regrouping, self-labelling."""
