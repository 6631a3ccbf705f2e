"""A run, finished or not, as a page to read (HTML) and a summary to pass on (Markdown)."""

from skillopt.runs.view import RunView
from skillopt_webui.report.html import page
from skillopt_webui.report.markdown import summary

__all__ = ["RunView", "page", "summary"]
