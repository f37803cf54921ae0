#!/usr/bin/env bash
# `make test`: every gate, with the time each took. The gates without the lab run beside molecule, in what it leaves of the
# processors, and all of them run, so that one run tells everything; the end-to-end tests, which are the longest, start only when
# the others passed. However it ends, the lab is taken down (KEEP_LAB=1 keeps it).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

results=tests/output/gates # a file a gate: its result and seconds
rm -rf "$results"
mkdir -p "$results"

run() {
    local start=$SECONDS result=ok
    printf '\n[%(%F %H:%M:%S)T] ==== make %s\n' -1 "$1"
    make --no-print-directory "$1" || result=FAILED
    printf '%s %d\n' "$result" $((SECONDS - start)) >"$results/$1"
    printf '[%(%F %H:%M:%S)T] ==== make %s: %s, %d s\n' -1 "$1" "$result" $((SECONDS - start))
}

passed() {
    local gate
    for gate in "$@"; do
        grep -qs '^ok' "$results/$gate" || return 1
    done
}

beside="" rc=1
finish() {
    trap - EXIT
    # Its own group, so that what make started ends too.
    [ -z "$beside" ] || kill -- "-$beside" 2>/dev/null
    [ "${KEEP_LAB:-}" = 1 ] || run demo-down
    printf '\n'
    for gate in lint units sanity molecule e2e demo-down; do
        [ -f "$results/$gate" ] || continue
        read -r result took <"$results/$gate"
        printf '%-10s %-8s %5d s\n' "$gate" "$result" "$took"
    done
    if [ -f tests/output/e2e.txt ]; then
        printf '\nThe end-to-end test that failed first: %s\n\n' "$(tail -c 5000 tests/output/e2e.txt)"
    fi
    printf '%-10s %-8s %5d s\n' all "$([ "$rc" = 0 ] && echo ok || echo FAILED)" "$SECONDS"
    exit "$rc"
}
trap exit INT TERM
trap finish EXIT

rm -f tests/output/e2e.txt
make --no-print-directory dev
set -m
{
    for gate in lint units sanity; do run "$gate"; done
} >tests/output/gates.log 2>&1 </dev/null &
beside=$!
set +m
renice -n 10 -g "$beside" >/dev/null
run molecule
printf '\nWaiting for lint, units and sanity, which ran meanwhile:\n'
wait "$beside"
beside=""
cat tests/output/gates.log
if passed lint units sanity molecule; then
    run e2e
    passed e2e && rc=0
else
    printf '\nA gate failed: the end-to-end tests did not run.\n'
fi
