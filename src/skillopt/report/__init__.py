"""A run, finished or not, as a page to read (HTML) and a summary to pass on (Markdown)."""

from skillopt.report.html import page
from skillopt.report.markdown import summary
from skillopt.runs.values import Facts

__all__ = ["Facts", "page", "summary"]
