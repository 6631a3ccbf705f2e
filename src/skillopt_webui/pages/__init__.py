"""The pages of the dashboard, one file each. The folder is the registry."""

from skillopt.registry import Registry

pages = Registry("page", "skillopt_webui.pages")
