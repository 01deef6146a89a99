#!/usr/bin/env bash
# Installs gchat-hooks for you alone, and takes it away again: see ./install.sh --help. For macOS and Linux, with the bash
# that macOS has (3.2). Everything stands in one pair of braces, so that a download that was cut short does nothing; but for the
# lines that another shell reads. From a pipe that shell's $0 is its own name, and would be a file of the working folder.
[ -n "${BASH_VERSION:-}" ] || case $0 in
  *.sh) exec bash "$0" "$@" ;;
  *) echo "install.sh: error: this needs bash: pipe it into bash, or run bash install.sh" >&2; exit 1 ;;
esac
{
set -euo pipefail
unset CDPATH # cd would say where it went
script=${BASH_SOURCE[0]:-} # empty from a pipe: then there is no source beside it, whatever the working folder holds

usage() {
  cat <<'END'
./install.sh                    build gchat-hooks into ~/bin, link its names, register the hooks
./install.sh --binary FILE      the same with a program that is built already (no Go needed)
./install.sh --uninstall        take all of it away again; it shows what goes, and asks where a person can answer

  --prefix DIR      in place of ~/bin
  --preset NAME     hooks to register: answer (default), report, system3, wake; repeatable
  --service         have the system keep the daemon running (asked for on a terminal)
  --no-service      do not ask
  --yes             with --uninstall: do not ask

Run it again to upgrade: the hooks that you chose stay. Nothing is written outside your home folder, and sudo is not needed.
END
}

say() { printf '%s\n' "$*"; }
die() { printf 'install.sh: error: %s\n' "$1" >&2; [ $# -lt 2 ] || printf 'install.sh: hint: %s\n' "$2" >&2; exit 1; }

prefix='' named=no binary='' service=ask uninstall=no
presets=() confirm=()
while [ $# -gt 0 ]; do
  case $1 in
    --prefix|--binary|--preset) [ $# -gt 1 ] || die "$1 takes a value" "./install.sh --help" ;;
  esac
  case $1 in
    --prefix) prefix=$2 named=yes; shift ;;
    --prefix=*) prefix=${1#*=} named=yes ;;
    --binary) binary=$2; shift ;;
    --binary=*) binary=${1#*=} ;;
    --preset) presets+=(--preset "$2"); shift ;;
    --preset=*) presets+=(--preset "${1#*=}") ;;
    --service) service=yes ;;
    --no-service) service=no ;;
    --uninstall) uninstall=yes ;;
    --yes) confirm=(--yes) ;;
    -h|--help) usage; exit 0 ;;
    *) die "no such option: $1" "./install.sh --help" ;;
  esac
  shift
done

[ -n "${HOME:-}" ] || die "HOME is not set"
if [ "$(id -u)" = 0 ] && [ -n "${SUDO_USER:-}" ]; then
  die "this installs for one person, and sudo makes that root" "run it without sudo"
fi
# As cd reads it, also where it does not exist yet: what is noted down must be found again from anywhere.
prefix=${prefix:-$HOME/bin}
case $prefix in
  '~'|'~/'*) prefix=$HOME${prefix#?} ;; # a shell leaves it in --prefix=~/bin
  /*) ;;
  *) prefix=$PWD/$prefix ;;
esac
parts=$prefix/ prefix=''
while [ -n "$parts" ]; do
  case ${parts%%/*} in
    ''|.) ;;
    ..) prefix=${prefix%/*} ;;
    *) prefix=$prefix/${parts%%/*} ;;
  esac
  parts=${parts#*/}
done
program=$prefix/gchat-hooks

# noted are the programs that installs wrote down, a line each, as JSON has them.
noted() {
  local state=$HOME/.local/state
  case ${XDG_STATE_HOME:-} in /*) state=$XDG_STATE_HOME ;; esac
  [ -r "$state/gchat-hooks/made.json" ] || return 0
  sed -n -e '/^  "programs": \[$/,/^  \]/ s/^    "\(.*\)",\{0,1\}$/\1/p' -e 's/^  "program": "\(.*\)",\{0,1\}$/\1/p' "$state/gchat-hooks/made.json" |
    sed -e 's/\\u0026/\&/g' -e 's/\\u003c/</g' -e 's/\\u003e/>/g' -e 's/\\\(["\\]\)/\1/g'
}

if [ "$uninstall" = yes ]; then
  by=$program
  if [ "$named" = no ]; then # whoever does not say where it is need not know it
    while IFS= read -r at; do
      [ -f "$at" ] && [ -x "$at" ] || continue
      by=$at
      [ "$by" != "$program" ] || break
    done <<END
$(noted)
END
  fi
  # Without a program in place, one that is given does it: what was installed is written down, not guessed.
  [ -x "$by" ] || by=$binary
  [ -x "$by" ] || die "$program is not there: nothing was installed, or elsewhere" "./install.sh --uninstall --prefix DIR"
  # The flag was asked for by its name. Where nobody can be asked more than that, it is enough.
  if [ ! -t 0 ] || [ ! -t 1 ]; then
    confirm=(--yes)
  fi
  "$by" uninstall --purge ${confirm[@]+"${confirm[@]}"}
  [ "$by" != "$binary" ] || by=$program # that one is the person's own
  for at in "$program" "$by"; do
    [ ! -e "$at" ] || { say "$at is still there"; exit 1; }
  done
  exit 0
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/gchat-hooks.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# build makes the program in $work. Go writes caches, settings and counters into the home folder; where it has none there
# yet, they go into $work and away with it. Caches that are there are used, and so are your settings of Go.
build() {
  local src cache config
  src=$(cd "$(dirname "${script:-/}")" && pwd)
  grep -qs '^module gchat-hooks$' "$src/go.mod" || die "there is no source beside this script" "git clone the project and run its install.sh, or give a program with --binary"
  command -v go >/dev/null 2>&1 || die "Go is not on the PATH" "install it from https://go.dev/dl, or give a program with --binary"
  cache=${XDG_CACHE_HOME:-$HOME/.cache} config=${XDG_CONFIG_HOME:-$HOME/.config}
  if [ "$(uname)" = Darwin ]; then
    cache=$HOME/Library/Caches config="$HOME/Library/Application Support"
  fi
  export GOENV="${GOENV:-$config/go/env}"
  [ -n "${GOCACHE:-}" ] || [ ! -d "$cache/go-build" ] || export GOCACHE="$cache/go-build"
  [ -n "${GOMODCACHE:-}" ] || [ ! -d "${GOPATH:-$HOME/go}/pkg/mod" ] || export GOMODCACHE="${GOPATH:-$HOME/go}/pkg/mod"
  mkdir "$work/home"
  say "building (a minute or two the first time) ..."
  (
    unset XDG_CACHE_HOME XDG_CONFIG_HOME
    # -modcacherw: what Go downloads into $work can be removed again.
    cd "$src" && HOME=$work/home CGO_ENABLED=0 GOFLAGS="-modcacherw ${GOFLAGS:-}" go build -trimpath -tags urfave_cli_no_docs -o "$work/gchat-hooks" .
  ) || die "the build failed" "gchat-hooks needs Go 1.26; or give a program with --binary"
}

if [ -n "$binary" ]; then
  [ -f "$binary" ] || die "no such file: $binary"
  cp "$binary" "$work/gchat-hooks"
  chmod 755 "$work/gchat-hooks"
else
  build
fi
"$work/gchat-hooks" --version >/dev/null 2>&1 || die "the program does not run on this machine" "build it here: ./install.sh without --binary"

# It looks whether all of this can be done, notes what it makes, for --uninstall, and only then puts itself in place.
"$work/gchat-hooks" install --place "$program" --links --keep ${presets[@]+"${presets[@]}"}

if [ "$service" = ask ]; then
  service=no
  if [ -t 0 ] && [ -t 1 ]; then
    printf 'Keep the daemon running? It answers sessions that hooks cannot reach; most need none. [y/N] '
    read -r answer || answer=
    case $answer in [yY]*) service=yes ;; esac
  fi
fi
if [ "$service" = yes ]; then
  "$program" poller install || say "the hooks work without it; try again with: $program poller install"
fi

case :$PATH: in
  *:"$prefix":*) name=gchat-hooks ;;
  *)
    name=$program
    say ""
    say "$prefix is not on your PATH. In ~/.zshrc, ~/.bashrc or ~/.profile:"
    say "  export PATH=\"$prefix:\$PATH\""
    ;;
esac
say ""
say "Next, the space that questions go to:  $name setup"
exit 0
}
