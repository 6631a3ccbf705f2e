"""Reads runs as they stand, from their folders alone: what the command line, the dashboard and the MCP server
show of them.
"""
