#!/usr/bin/env bash
# Prints a Python interpreter of version FROM to TO (both 3.N, inclusive), the first that runs of: python3 itself, then the oldest
# first on PATH, in the usual folders and under pyenv. Fails with a message when there is none.
#   tools/find_python.sh FROM TO
set -euo pipefail
from=${1#3.} to=${2#3.}

fits() {
    "$1" -c "import sys; sys.exit(not (3, $from) <= sys.version_info[:2] <= (3, $to))" 2>/dev/null
}

candidates=(python3)
for minor in $(seq "$from" "$to"); do
    candidates+=("python3.$minor" "/usr/bin/python3.$minor" "/usr/local/bin/python3.$minor")
    for found in "${PYENV_ROOT:-$HOME/.pyenv}/versions/3.$minor."*/bin/python3 .cache/python/*/bin/"python3.$minor"; do
        candidates+=("$found")
    done
done
for candidate in "${candidates[@]}"; do
    if command -v "$candidate" >/dev/null && fits "$candidate"; then
        "$candidate" -c 'import sys; print(getattr(sys, "_base_executable", None) or sys.executable)'
        exit 0
    fi
done
printf 'error: no Python %s to %s found on this machine (python3 is %s).\n' "$1" "$2" "$(python3 --version 2>&1 || true)" >&2
printf 'Install one, or name it: make dev PYTHON=/path/to/python3.12\n' >&2
exit 1
