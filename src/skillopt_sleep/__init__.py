"""The door `python -m skillopt_sleep`: the same as `skillopt sleep`."""
