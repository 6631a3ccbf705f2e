"""Experiments with nights: programs that show what a night learns, what its gate keeps out, and how far a
skill carries.
"""
