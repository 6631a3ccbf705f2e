"""A finished or unfinished run as a page to read and a summary to pass on: facts from the log, then HTML and
Markdown.
"""

from __future__ import annotations

from skillopt.report.html import page
from skillopt.report.markdown import summary
from skillopt.runs.values import Facts

__all__ = ["Facts", "page", "summary"]
