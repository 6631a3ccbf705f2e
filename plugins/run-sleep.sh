#!/bin/sh
# The public runner of nights: `skillopt-sleep`, which shows how they stand where nothing else is asked.
exec skillopt-sleep "${@:-status}"
