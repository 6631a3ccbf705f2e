"""Tasks, how they are split and scored, and what running one gives."""
