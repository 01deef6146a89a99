#!/usr/bin/env bash
# Stop gate. Step 3: s3-communicator must be alive (persistent_agent_checker.py).
set -euo pipefail
cd "$(dirname "$0")"
python3 -c 'import unified_stop_gate.persistent_agent_checker' >/dev/null
exec python3 -m unified_stop_gate.checker
