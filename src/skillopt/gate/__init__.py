"""Decides which changes to the skill are kept: one gate for all of them."""
