"""The dashboard: runs, nights and settings in a browser; it reads what a run leaves and starts work only
through the command line.
"""
