"""The simulated rule world: its rules and its optimizer."""
