CREATE TABLE IF NOT EXISTS holdfast_fences (
  resource TEXT NOT NULL PRIMARY KEY,
  fence INTEGER NOT NULL
    CONSTRAINT holdfast_fence_is_no_integer CHECK (typeof(fence) = 'integer')
    CONSTRAINT holdfast_stale_fence CHECK (fence > 0)
);
