#!/usr/bin/env bash
# Our PreToolUse hook, our notification hook and gchat-send beside Python and bash programs that do the first design's work,
# in turn and in one run: the ratios hold however busy the machine is. Needs python3, and bash, jq and curl.
#
#   e2e/bench/compare.sh [ROUNDS]
set -euo pipefail
cd "$(dirname "$0")/../.."
go test ./cli -run '^$' -bench '^BenchmarkSendBeside' -benchtime "${1:-40}x" -count 1
go test ./hooks ./hooks/wake -run '^$' -bench '^BenchmarkBeside' -benchtime "${1:-40}x" -count 1
