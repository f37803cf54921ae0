#!/usr/bin/env bash
# `make test`: every gate, in order, with the time each took. The gates without the lab all run, so that one run tells everything;
# the lab is built only when they passed. However it ends, the lab is taken down (KEEP_LAB=1 keeps it).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

names=() results=() seconds=() failed=0 lab=0

run() {
    local start=$SECONDS result=ok
    printf '\n[%(%F %H:%M:%S)T] ==== make %s\n' -1 "$1"
    make --no-print-directory "$1" || { result=FAILED failed=1; }
    names+=("$1") results+=("$result") seconds+=($((SECONDS - start)))
    printf '[%(%F %H:%M:%S)T] ==== make %s: %s, %d s\n' -1 "$1" "$result" "${seconds[-1]}"
}

finish() {
    trap - EXIT
    if [ "$lab" = 1 ] && [ "${KEEP_LAB:-}" != 1 ]; then
        run demo-down
    fi
    printf '\n'
    for i in "${!names[@]}"; do
        printf '%-10s %-8s %5d s\n' "${names[i]}" "${results[i]}" "${seconds[i]}"
    done
    if [ -f tests/output/e2e.txt ]; then
        printf '\nThe end-to-end test that failed first: %s\n\n' "$(tail -c 5000 tests/output/e2e.txt)"
    fi
    printf '%-10s %-8s %5d s\n' all "$([ "$failed" = 0 ] && echo ok || echo FAILED)" "$SECONDS"
    exit "$failed"
}
trap 'failed=1; exit' INT TERM
trap finish EXIT

rm -f tests/output/e2e.txt
run lint
run units
run sanity
if [ "$failed" = 0 ]; then
    lab=1
    run molecule
    run e2e
else
    printf '\nThe lab is not started, as a gate before it failed: molecule and e2e did not run.\n'
fi
