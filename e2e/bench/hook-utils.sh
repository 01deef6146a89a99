# What stop-hook.sh keeps in a library: the transcript's last words, and what is new on the screen.

# last_words prints the last text of Claude's within the last 40 lines of a transcript. A line that is still being written is
# no JSON: what was said before it is printed.
last_words() { # TRANSCRIPT
  [ -n "$1" ] && [ -f "$1" ] || return 0
  tail -40 "$1" 2>/dev/null |
    jq -r 'select(.type == "assistant") | (.message.content // [])[] | select(.type == "text") | .text' 2>/dev/null |
    tail -1
}

# new_lines prints the lines of a screen that were not there the last time, else its last ten. Two hooks of a session may run
# at once: the file is compared and replaced under a lock.
new_lines() { # SESSION SCREEN
  local before=${TMPDIR:-/tmp}/wake-pane-$1.txt lock=${TMPDIR:-/tmp}/wake-pane-$1.lock new
  new=$(
    exec 9>"$lock"
    flock -x -w 2 9 || exit 0
    [ ! -f "$before" ] ||
      diff --new-line-format=%L --old-line-format= --unchanged-line-format= "$before" - <<<"$2" 2>/dev/null
    printf '%s\n' "$2" >"$before"
  )
  [ -n "$new" ] || new=$(tail -10 <<<"$2")
  printf '%s\n' "$new"
}
