#!/bin/sh
# A thousand machines at one hub, for docs/team.md: clients of the hub, and no hooks. GCHAT_HUB_SECONDS says for how long they tap.
cd "$(dirname "$0")/../.." || exit
GCHAT_HUB_SECONDS=${GCHAT_HUB_SECONDS:-120} exec go test ./e2e -run '^$' -bench '^BenchmarkHub$' -benchtime 1x -timeout 20m
