#!/usr/bin/env bash
# Our stop-hook beside a bash hook that does the first design's work, in turn and in one run: the ratios hold however busy the
# machine is. And a transcript of 1 MB beside one of 1 GB, which is written to TMPDIR and removed. Needs tmux, bash, jq and flock.
#
#   e2e/bench/wake.sh [ROUNDS]
set -euo pipefail
cd "$(dirname "$0")/../.."
jq --version # 1.6 takes many times as long to start as 1.7 does, and a bash hook starts it nine times
go test ./hooks/wake -run '^$' -bench '^Benchmark(StopHook|BesideBash|Transcript)' -benchtime "${1:-40}x" -count 1 -timeout 30m
