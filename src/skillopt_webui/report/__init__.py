"""A run, finished or not, as a page to read (HTML) and a summary to pass on (Markdown)."""

from skillopt.runs.values import Facts
from skillopt_webui.report.html import page
from skillopt_webui.report.markdown import summary

__all__ = ["Facts", "page", "summary"]
