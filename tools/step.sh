#!/usr/bin/env bash
# Runs one step of a gate and says when it started, how it ended and how long it took.
#   tools/step.sh TITLE COMMAND...
set -uo pipefail
title=$1
shift
start=$SECONDS
printf '[%(%H:%M:%S)T] > %s\n' -1 "$title"
"$@"
rc=$?
[ "$rc" = 0 ] && how=ok || how="FAILED (exit $rc)"
printf '[%(%H:%M:%S)T] < %s: %s, %d s\n' -1 "$title" "$how" $((SECONDS - start))
exit "$rc"
