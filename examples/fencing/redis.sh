#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# holdfast lock stock -- ./redis.sh PORT: takes one piece from the shelf.
cd "$(dirname "$0")" || exit
# [redis]
set -eu
fenced() {  # As the holder of the lock: COMMAND...
  redis-cli -e -p "$port" --eval fenced_command.lua \
    '{stock}:fence' '{stock}' , "$HOLDFAST_FENCE" "$@"
}

port=$1
pieces=$(fenced GET '{stock}')
fenced SET '{stock}' "$((pieces - 1))"
# [redis]
