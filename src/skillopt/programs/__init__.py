"""Runs the CLIs of agents in places of their own and reads what they did; `agents` has a driver for each."""
