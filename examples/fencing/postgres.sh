#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# holdfast lock stock -- ./postgres.sh DATABASE: takes one piece from the shelf.
# [postgres]
exec psql -X -q -v ON_ERROR_STOP=1 -v fence="$HOLDFAST_FENCE" --single-transaction -f - "$1" <<'SQL'
INSERT INTO holdfast_fences AS seen (resource, fence) VALUES ('stock', :fence)
ON CONFLICT (resource) DO UPDATE SET fence =
  CASE WHEN excluded.fence >= seen.fence THEN excluded.fence ELSE -excluded.fence END;

UPDATE stock SET pieces = pieces - 1;
SQL
# [postgres]
