#!/bin/sh
# Installs gchat-hooks for you alone, and takes it away again: see ./install.sh --help. For macOS and Linux, any POSIX shell.
# All of it is functions until the last line, so that a download that was cut short does nothing.
set -eu

usage() {
  cat <<'END'
./install.sh                    put gchat-hooks into ~/bin, register the hooks, and link the names that agents use. The program is
                                that of a release beside this script, or is built from the source there
./install.sh --binary FILE      the same with that program (no Go needed)
./install.sh --uninstall        remove all of it; it shows what goes, and asks first on a terminal

  --prefix DIR      in place of ~/bin
  --preset NAME     hooks to register: answer (default), approve, report, system3, wake, send
  --yes             with --uninstall: do not ask

Run it again to upgrade: the hooks that you chose stay. Nothing stays outside your home folder and --prefix, and sudo is not needed.
END
}

say() { printf '%s\n' "$*"; }
die() { printf 'install.sh: error: %s\ninstall.sh: hint: %s\n' "$1" "$2" >&2; exit 1; }

# is_ours says whether a file is this program, of any version.
is_ours() { [ -f "$1" ] && case $("$1" --version 2>/dev/null </dev/null) in "gchat-hooks "*) ;; *) return 1 ;; esac; }

# released is what a release calls the program for this machine.
released() {
  arch=$(uname -m)
  case $arch in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; esac
  say "gchat-hooks-$(uname -s | tr '[:upper:]' '[:lower:]')-$arch"
}

# check_sum compares the program with SHA256SUMS, where that lies beside it and names it, and stops where they differ. A
# release's program that is not in the list is none of that release's.
check_sum() {
  sums=$(dirname "$binary")/SHA256SUMS file=$(basename "$binary")
  [ -f "$sums" ] || return 0
  listed=$(awk -v file="$file" '{ name = $2; sub(/^\*/, "", name) } name == file { print $1 }' "$sums")
  case $listed:$file in
    :gchat-hooks-*) die "$sums does not list $file" "download the whole release again" ;;
    :*) return 0 ;;
  esac
  if command -v sha256sum >/dev/null; then is=$(sha256sum <"$binary"); else is=$(shasum -a 256 <"$binary"); fi ||
    die "$file cannot be compared with SHA256SUMS: sha256sum and shasum are missing" "install one of them"
  [ "${is%% *}" = "$listed" ] ||
    die "$file is not the program that SHA256SUMS names" "download the release again; if it stays so, tell the maintainers"
}

# find_program sets $binary: to the program beside this script, else to one that is built in $work from the source there. From a
# pipe there is neither, whatever the working folder holds: $0 is the shell's name then.
find_program() {
  case $0 in */install.sh | install.sh) src=$(CDPATH= cd "$(dirname "$0")" && pwd) ;; *) src= ;; esac
  binary=$src/$(released)
  [ -z "$src" ] || [ ! -f "$binary" ] || return 0
  grep -qs '^module gchat-hooks$' "$src/go.mod" || die "there is no program and no source beside this script" "git clone the project and run its install.sh, or give a program with --binary"
  command -v go >/dev/null || die "Go is not on the PATH" "install it from https://go.dev/dl, or give a program with --binary"
  say "building (a minute or two the first time, seconds after the demo) ..."
  binary=$work/built
  # As `go run .` builds it, but for the tag, which saves time at each start: what the demo compiled is not compiled again.
  (cd "$src" && go build -tags urfave_cli_no_docs -o "$binary" .) || die "the build failed" "give a program with --binary"
}

uninstall() {
  is_ours "$program" || die "$program is not there: gchat-hooks is not installed, or in another folder" "./install.sh --uninstall --prefix DIR"
  # The flag was asked for by its name. Where there is no terminal to ask on, it is enough.
  [ -t 0 ] && [ -t 1 ] || confirm=--yes
  "$program" uninstall --purge $confirm
  rm -f "$program"
  rmdir "$prefix" 2>/dev/null || :
}

install() {
  [ ! -e "$program" ] || is_ours "$program" ||
    die "$program is another program, so it stays" "move it away, or take another --prefix"
  work=$(mktemp -d "${TMPDIR:-/tmp}/gchat-hooks.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  trap 'exit 1' HUP INT TERM
  [ -n "$binary" ] || find_program
  check_sum
  cp "$binary" "$work/gchat-hooks" && chmod 755 "$work/gchat-hooks" || die "there is no program $binary" "./install.sh --help"
  is_ours "$work/gchat-hooks" || ! xattr -p com.apple.quarantine "$binary" >/dev/null 2>&1 ||
    die "macOS does not start $binary, since it was downloaded" "xattr -d com.apple.quarantine $binary"
  is_ours "$work/gchat-hooks" || die "the program does not run on this machine" "build it here: ./install.sh without --binary"
  # What would keep the hooks from being registered is found before anything is written.
  "$work/gchat-hooks" install --keep --dry-run "$@" >/dev/null
  mkdir -p "$prefix"
  # By a rename: a daemon that runs keeps its program, and half of one is never started.
  cp "$work/gchat-hooks" "$prefix/.gchat-hooks.new" && mv -f "$prefix/.gchat-hooks.new" "$program"
  case :$PATH: in *:"$prefix":*) ;; *)
    say "$prefix is not on your PATH. In ~/.zshrc, ~/.bashrc or ~/.profile:  export PATH=\"$prefix:\$PATH\"" ;;
  esac
  "$program" install --keep --links "$@" # it says what comes next
}

main() {
  prefix=${HOME:?is not set}/bin binary= job=install confirm= preset=
  while [ $# -gt 0 ]; do
    case $1 in --prefix | --binary | --preset) [ $# -gt 1 ] || die "$1 takes a value" "./install.sh --help" ;; esac
    case $1 in
      --prefix) prefix=$2; shift ;;
      --binary) binary=$2; shift ;;
      --preset) preset=$2; shift ;;
      --uninstall) job=uninstall ;;
      --yes) confirm=--yes ;;
      -h | --help) usage; exit 0 ;;
      *) die "no such option: $1" "./install.sh --help" ;;
    esac
    shift
  done
  [ "$(id -u)" != 0 ] || [ -z "${SUDO_USER:-}" ] || die "this installs for one person, and with sudo that is root" "run it without sudo"
  case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
  program=$prefix/gchat-hooks
  $job ${preset:+--preset "$preset"}
}

main "$@"
