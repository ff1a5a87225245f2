// SPDX-License-Identifier: Apache-2.0
// A gate of capacity 1 with leases, waiters, crashes and fences: the rules of src/gate/, small
// enough that every interleaving can be looked at. check_model runs it, with and without mutants.
//
// A store is its rows. A commit is one step, on condition of versions. A version is not a number
// here: whoever has planned a commit loses the plan in the moment in which a row that it depends on
// is written, and plans again. That is a commit that conflicts, without the step that finds it out.
//
// Time is abstract: a lease may run out at any moment, and its session may not notice for ever so
// long. A step is never forced, so every client may also stop between any two.
//
// All that happens is bounded (ROUNDS, FAULTS, ...), and no step can be repeated for ever. So who
// waits and can do nothing more is found as an invalid end state, and that there is no cycle as the
// absence of cycles without progress.

#define N 3  // Clients. Each has one session at a time, and comes back with a new one.

#ifndef ROUNDS
#define ROUNDS 3  // So often someone asks for the lock, over all clients.
#endif
#ifndef FAULTS
#define FAULTS 2  // Crashes, and leases that run out under a client that goes on.
#endif
#ifndef RENEWALS
#define RENEWALS 1  // Each may be under way for ever so long.
#endif
#ifndef FORCES
#define FORCES 1  // Holds that an operator ends.
#endif

#ifndef TIMEOUTS
#define TIMEOUTS 0  // Requests whose deadline passes while they wait.
#endif

// What guards the resource: OUTSIDE compares fences, by itself; HOLDER_ROW and SESSION_ROW are
// guards of a commit in the store.
#define OUTSIDE 0
#define HOLDER_ROW 1
#define SESSION_ROW 2
#ifndef GUARD
#define GUARD OUTSIDE
#endif

// Rows of sessions, and what a client knows of them.
#define GONE 0
#define LIVE 1
#define EXPIRED 2
#define UNKNOWN 3

// What a client is doing.
#define OFF 0  // It has no session, or has forgotten it.
#define IDLE 1
#define ASKING 2
#define WAITING 3
#define SERVING 4  // Waits, and sees to those before it.
#define READING 5
#define WRITING 6
#define RELEASING 7
#define LEAVING 8  // Takes its request back.

#define BIT(i) (1 << (i))
#define HAS(mask, i) (((mask) >> (i)) & 1)
#define KNOWN(c, s) know[(c) * N + (s)]
#define WAITS_AT(i, c) (waiters > (i) && queue[i] == (c))
#define IS_QUEUED(c) (WAITS_AT(0, c) || WAITS_AT(1, c) || WAITS_AT(2, c))
#define IS_HELD (held[0] != 0 || held[1] != 0 || held[2] != 0)
#define HOLDS_ALIVE(c) (held[c] != 0 && row[c] == LIVE)
#define IS_HELD_ALIVE (HOLDS_ALIVE(0) || HOLDS_ALIVE(1) || HOLDS_ALIVE(2))
#define IS_CHANGING(c) \
  (doing[c] == ASKING || doing[c] == SERVING || doing[c] == RELEASING || doing[c] == LEAVING)
#define IS_AWAY(c) (doing[c] == OFF && row[c] != LIVE && !under_way[c])
// Whether serving would change anything now.
#define CAN_SERVE \
  (waiters > 0 && (row[queue[0]] != LIVE || is_late[queue[0]] || !IS_HELD_ALIVE))

// --- The store -----------------------------------------------------------------------------------

byte row[N];    // Of the sessions.
byte held[N];   // The row of a holder: its fence; 0: none.
byte queue[N];  // Waiters, by their tickets.
byte waiters;
byte counted;     // Waiters, as the head has it.
bit is_late[N];   // Of a waiter: its deadline has passed.
byte fences;    // The greatest given out.
bit under_way[N];  // A renewal was sent that the store has not seen.

// --- The clients ---------------------------------------------------------------------------------

byte doing[N];
byte fence[N];
byte value_read[N];
bit saw_waiter[N];  // Its own row, when it began to take its request back.
byte know[N * N] = UNKNOWN;
// A commit that is ready: holders to end, waiters to drop, sessions to bury, rows whose versions it
// depends on besides the head, and who is let in (N: nobody).
bit ready[N];
byte to_end[N];
byte to_drop[N];
byte to_bury[N];
byte depends[N];
byte to_grant[N];

// --- The resource --------------------------------------------------------------------------------

byte value;
byte seen;  // The greatest fence.

// --- For the checks alone ------------------------------------------------------------------------

byte accepted;  // Increments.
bit taken[N];   // Something of this session went to others.
byte opened;    // Clients are alike, so they come in their order the first time.

bit over;
byte rounds = ROUNDS;
byte faults = FAULTS;
byte renewals = RENEWALS;
byte forces = FORCES;
byte timeouts = TIMEOUTS;

hidden byte i, j, s, w, k, miss, holders, ends, drops, buries, needs, grant, count;
hidden byte stop, found;

inline forget_plan(c) {
  ready[c] = 0;
  to_end[c] = 0;
  to_drop[c] = 0;
  to_bury[c] = 0;
  depends[c] = 0;
  to_grant[c] = 0;
  for (j : 0 .. N - 1) {
    KNOWN(c, j) = UNKNOWN
  }
  skip
}

inline forget_all(c) {
  forget_plan(c);
  doing[c] = OFF;
  fence[c] = 0;
  saw_waiter[c] = 0;
  value_read[c] = 0
}

/// The row of session `whose` has a new version, or is gone.
inline row_written(whose) {
  for (i : 0 .. N - 1) {
    if
#ifdef FORGOTTEN_BURIAL
    :: KNOWN(i, whose) == GONE -> skip
#endif
    :: else -> KNOWN(i, whose) = UNKNOWN
    fi;
    if
    :: ready[i] && HAS(depends[i], whose) -> forget_plan(i)
    :: else
    fi
  }
  skip
}

/// The head has a new version.
inline head_written(by) {
  for (i : 0 .. N - 1) {
    if
#ifndef GRANT_WITHOUT_CONDITION
    :: i != by && ready[i] -> forget_plan(i)
#endif
    :: else
    fi
  }
  skip
}

inline plan_bury(c, dead) {
#ifndef NO_BURY
  buries = buries | BIT(dead);
#endif
#ifndef BURY_WITHOUT_CONDITION
  needs = needs | BIT(dead);
#endif
#ifdef FORGOTTEN_BURIAL
  // Believed to be done, whatever becomes of the commit.
  KNOWN(c, dead) = GONE;
#endif
  skip
}

/// What `Serving` does: on the rows as they are now, with what `c` knows of the sessions. Either
/// `miss` is a session of which it has to know more, or the rest is what to commit.
inline plan(c) {
  miss = N;
  ends = 0;
  drops = 0;
  buries = 0;
  needs = 0;
  grant = N;
  holders = 0;
  for (i : 0 .. N - 1) {
    if
    :: held[i] != 0 -> holders = holders | BIT(i)
    :: else
    fi
  }
  if
#ifdef RELEASE_WITHOUT_FENCE
  :: doing[c] == RELEASING -> ends = holders
#else
  :: doing[c] == RELEASING && held[c] == fence[c] -> ends = BIT(c) & holders
#endif
  :: doing[c] == LEAVING && held[c] != 0 -> fence[c] = held[c]; ends = BIT(c)
#ifdef STALE_WITHDRAWAL
  :: doing[c] == LEAVING && held[c] == 0 && saw_waiter[c] -> drops = BIT(c)
#else
  :: doing[c] == LEAVING && held[c] == 0 && IS_QUEUED(c) -> drops = BIT(c)
#endif
  :: else
  fi;
  holders = holders & ~ends;
  stop = 0;
  j = 0;
  do
  :: stop || j >= waiters + (doing[c] == ASKING) -> break
  :: else ->
    if
    :: j < waiters -> w = queue[j]
    :: else -> w = c
    fi;
    j++;
    if
    :: w == c -> k = LIVE
    :: else -> k = KNOWN(c, w)
    fi;
    if
    :: HAS(drops, w) -> skip
    :: !HAS(drops, w) && k == LIVE && is_late[w] -> drops = drops | BIT(w)
    :: else ->
    if
    :: k == UNKNOWN -> miss = w; stop = 1
    :: k == EXPIRED -> drops = drops | BIT(w); plan_bury(c, w)
    :: k == GONE -> drops = drops | BIT(w)
    :: k == LIVE && grant != N -> stop = 1
    :: k == LIVE && grant == N ->
      for (s : 0 .. N - 1) {
        if
        :: HAS(holders, s) ->
          if
          :: s == c -> k = LIVE
          :: else -> k = KNOWN(c, s)
          fi;
          if
          :: k == UNKNOWN -> miss = s
          :: k == EXPIRED -> ends = ends | BIT(s); plan_bury(c, s)
          :: k == GONE -> ends = ends | BIT(s)
          :: k == LIVE
          fi
        :: else
        fi
      }
      holders = holders & ~ends;
      if
      :: holders == 0 ->
        grant = w;
        if
        :: w != c -> needs = needs | BIT(w)
        :: else
        fi
      :: else -> stop = 1
      fi
    fi
    fi
  od
}

inline leave_queue(who) {
  i = 0;
  j = 0;
  do
  :: i < waiters ->
    if
    :: queue[i] != who -> queue[j] = queue[i]; j++
    :: else
    fi;
    i++
  :: else -> break
  od;
  for (i : j .. N - 1) {
    queue[i] = 0
  }
  waiters = j
}

inline check_holders() {
  count = 0;
  for (i : 0 .. N - 1) {
    count = count + (held[i] != 0)
  }
  assert(count <= 1)
}

inline commit(c) {
  for (s : 0 .. N - 1) {
    if
    :: HAS(to_end[c], s) ->
      // A hold ends by its holder, or by its lease.
      assert(held[s] == 0 || (s == c && held[s] == fence[c]) || row[s] != LIVE);
      if
      :: s != c -> taken[s] = 1
      :: else
      fi;
      held[s] = 0
    :: else
    fi;
    if
    :: HAS(to_drop[c], s) ->
      assert(row[s] != LIVE || is_late[s] || s == c);
      if
      :: !is_late[s] && s != c -> taken[s] = 1
      :: else
      fi;
      counted--;
      is_late[s] = 0;
      leave_queue(s)
    :: else
    fi
  }
  if
  :: doing[c] == ASKING -> queue[waiters] = c; waiters++; counted++
  :: else
  fi;
  grant = to_grant[c];
  if
  :: grant != N ->
    assert(queue[0] == grant);
    leave_queue(grant);
    counted--;
    is_late[grant] = 0;
    fences++;
    for (s : 0 .. N - 1) {
      assert(held[s] < fences)
    }
    held[grant] = fences
  :: else
  fi;
  check_holders();
  assert(counted == waiters);
  buries = to_bury[c];
  forget_plan(c);
  for (s : 0 .. N - 1) {
    if
    :: HAS(buries, s) -> row[s] = GONE; row_written(s)
    :: else
    fi
  }
  head_written(c)
}

inline done_with_plan(c) {
  if
  :: doing[c] == ASKING || doing[c] == SERVING -> doing[c] = WAITING
  :: doing[c] == RELEASING || doing[c] == LEAVING ->
    doing[c] = IDLE;
    fence[c] = 0;
    saw_waiter[c] = 0
  fi
}

inline presents_fence(c, checks) {
  found = 1;
#ifndef NO_FENCE
  if
  :: !(checks)
#if GUARD == OUTSIDE
  :: (checks) && fence[c] < seen -> found = 0
  :: (checks) && fence[c] >= seen -> seen = fence[c]
#elif GUARD == HOLDER_ROW
  :: (checks) -> found = (held[c] == fence[c])
#else
  :: (checks) -> found = (row[c] != GONE)
#endif
  fi
#endif
}

#ifdef FENCE_ON_WRITES_ONLY
#define READS_CHECKED 0
#else
#define READS_CHECKED 1
#endif

// --- Steps ---------------------------------------------------------------------------------------

proctype Client(byte c) {
  do
  // A new session, to ask for the lock. Ids are not used again: here, not before all that was of
  // the last one is gone.
  :: d_step { doing[c] == OFF && rounds > 0 && !over && c <= opened && held[c] == 0 &&
        !IS_QUEUED(c) && !under_way[c] ->
      rounds--;
      if
      :: c == opened -> opened++
      :: else
      fi;
      row[c] = LIVE;
      taken[c] = 0;
      for (i : 0 .. N - 1) {
        KNOWN(i, c) = UNKNOWN
      }
      doing[c] = ASKING }
  :: d_step { doing[c] == IDLE && rounds > 0 -> rounds--; doing[c] = ASKING }
  :: d_step { doing[c] == IDLE ->
      if
      :: row[c] != GONE -> row[c] = GONE; row_written(c)
      :: else
      fi;
      forget_all(c) }

  // Plans. Reads the head and its rows, and if it must, one session; then again.
  :: d_step { IS_CHANGING(c) && !ready[c] ->
      plan(c);
      if
      :: miss != N -> KNOWN(c, miss) = row[miss]
      :: miss == N && doing[c] != ASKING && ends == 0 && drops == 0 && grant == N ->
        forget_plan(c);
        done_with_plan(c)
      :: else ->
        forget_plan(c);
        ready[c] = 1;
        to_end[c] = ends;
        to_drop[c] = drops;
        to_bury[c] = buries;
        depends[c] = needs;
        to_grant[c] = grant
      fi }
  // Commits, also on condition of its own session.
  :: d_step { ready[c] ->
      if
      :: row[c] == GONE -> forget_all(c)
      :: else -> commit(c); done_with_plan(c)
      fi }

  // A grant wakes. Whoever waits and sees that those before it are dead, does it itself.
  :: d_step { doing[c] == WAITING && held[c] != 0 -> fence[c] = held[c]; doing[c] = READING }
#ifndef NO_SWEEP
  :: d_step { doing[c] == WAITING && IS_QUEUED(c) && row[c] == LIVE && CAN_SERVE ->
      doing[c] = SERVING }
#endif

#ifndef BLIND_WAIT
  // A grant may be over before it is seen, by force: then there is neither of its rows.
  :: d_step { doing[c] == WAITING && held[c] == 0 && !IS_QUEUED(c) -> doing[c] = IDLE }
#endif

  // Its time is up. Others may drop it from now on, and it takes itself out.
  :: d_step { doing[c] == WAITING && IS_QUEUED(c) && timeouts > 0 && !is_late[c] ->
      timeouts--;
      is_late[c] = 1 }
  :: d_step { doing[c] == WAITING && IS_QUEUED(c) && is_late[c] ->
      saw_waiter[c] = 1;
      doing[c] = LEAVING }

  // One more, with whatever is between.
  :: d_step { doing[c] == READING ->
      presents_fence(c, READS_CHECKED);
      if
      :: found -> value_read[c] = value; doing[c] = WRITING
      :: else -> doing[c] = RELEASING
      fi }
  :: d_step { doing[c] == WRITING ->
      presents_fence(c, 1);
      if
      :: found ->
        value = value_read[c] + 1;
        accepted++;
        assert(value == accepted)
      :: else
      fi;
      value_read[c] = 0;
      doing[c] = RELEASING }

  // Renewals: refused once it has expired, but one that is under way may come late.
  :: d_step { doing[c] != OFF && row[c] == LIVE && !under_way[c] && renewals > 0 ->
      renewals--;
      under_way[c] = 1 }
  :: d_step { under_way[c] ->
      under_way[c] = 0;
      if
      :: row[c] != GONE ->
        assert(!taken[c]);
        row[c] = LIVE;
        row_written(c)
      :: else
      fi }

  // Leases run out, of the dead in any case; and it is noticed, or not.
  :: d_step { doing[c] == OFF && row[c] == LIVE -> row[c] = EXPIRED }
  :: d_step { doing[c] != OFF && row[c] == LIVE && faults > 0 -> faults--; row[c] = EXPIRED }
  :: d_step { doing[c] != OFF && row[c] != LIVE -> forget_all(c) }
  :: d_step { doing[c] != OFF && faults > 0 -> faults--; forget_all(c) }

  :: d_step { IS_AWAY(0) && IS_AWAY(1) && IS_AWAY(2) -> over = 1 }
    break
  od
}

init {
  atomic {
    run Client(0);
    run Client(1);
    run Client(2)
  }
  do
  // An operator ends a hold.
  :: d_step { forces > 0 && IS_HELD ->
      forces--;
      for (s : 0 .. N - 1) {
        held[s] = 0
      }
      head_written(N) }
  :: over -> break
  od
}
