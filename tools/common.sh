# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# What the commands at the root share. Sourced with `root` set and the command's name in `self`.

note() { printf '%s: %s\n' "$self" "$*" >&2; }
die() {
  note "$*"
  exit 1
}

# quiet WHAT COMMAND...: runs a command without its output, unless it fails. One line on a terminal
# or in a log says what is being done; the result code is the command's.
quiet() {
  local what=$1 log rc=0
  shift
  log=$(mktemp)
  "$@" >"$log" 2>&1 || rc=$?
  if ((rc != 0)); then
    cat "$log" >&2
    note "$what failed"
  fi
  rm -f "$log"
  return "$rc"
}

# build PRESET [TARGET]: configures when that is needed, then builds. All output goes to stderr.
build() {
  local preset=$1 dir="$root/build/$1" start=$SECONDS
  local args=(--preset "$preset")
  if (($# > 1)); then args+=(--target "$2"); fi
  cd "$root"
  # A change of the CMake files is noticed by the build itself; one of the presets is not.
  if [[ ! -e $dir/build.ninja || CMakePresets.json -nt $dir/build.ninja ]]; then
    note "configuring $preset"
    quiet "configuring $preset" cmake --preset "$preset" || return
    touch "$dir/build.ninja"
  fi
  quiet "building $preset" cmake --build "${args[@]}" || return
  if ((SECONDS - start > 1)); then note "$preset built in $((SECONDS - start)) s"; fi
}
