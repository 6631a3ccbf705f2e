"""Draws a run, one way for live page and report: pure functions from facts to HTML and SVG."""
