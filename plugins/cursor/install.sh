#!/bin/sh
exec sh "${0%/*}/../install.sh" cursor "$@"
