"""Measures a skill on tasks, and compares two measurements."""
