CREATE TABLE IF NOT EXISTS holdfast_fences (
  resource text NOT NULL PRIMARY KEY,
  fence bigint NOT NULL CONSTRAINT holdfast_stale_fence CHECK (fence > 0)
);
