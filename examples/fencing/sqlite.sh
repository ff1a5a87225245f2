#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# holdfast lock stock -- ./sqlite.sh shop.db: takes one piece from the shelf.
# [sqlite]
exec sqlite3 -bail -cmd '.timeout 10000' "$1" <<SQL
BEGIN IMMEDIATE;
INSERT INTO holdfast_fences AS seen (resource, fence) VALUES ('stock', $HOLDFAST_FENCE)
ON CONFLICT (resource) DO UPDATE SET fence =
  CASE WHEN excluded.fence >= seen.fence THEN excluded.fence ELSE -excluded.fence END;

UPDATE stock SET pieces = pieces - 1;
COMMIT;
SQL
# [sqlite]
