"""A door to the dashboard; the dashboard itself is `skillopt.dashboard`."""
