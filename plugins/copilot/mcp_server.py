"""The public door to the MCP server: `python plugins/copilot/mcp_server.py` is `skillopt mcp`."""

import sys

from skillopt.cli import main

if __name__ == "__main__":
    sys.argv[1:1] = ["mcp"]
    main()
