"""A deterministic proof of what a night does; its larger relatives lie in `examples/nights`."""
