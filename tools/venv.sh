#!/usr/bin/env bash
# Makes (or refreshes) a virtual environment with the requirements of this checkout.
#   tools/venv.sh DIR PYTHON REQUIREMENTS...
# PYTHON may be empty: then the newest suitable Python found on this machine is taken. Nothing happens when DIR is up to date.
# Several runs at once wait for each other.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=$1 python=$2
shift 2

say() { printf '[%(%H:%M:%S)T] %s\n' -1 "$*" >&2; }
die() { printf '\nerror: %s\n' "$*" >&2; exit 1; }

mkdir -p .cache
exec 9>".cache/$(basename "$dir").lock"
flock 9

if [ -z "$python" ]; then
    python=$("$here/find_python.sh" 3.11 3.14) || exit 1
fi
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || die "PYTHON=$python does not run"
case $version in
    3.1[1-4]) ;;
    *) die "PYTHON=$python is Python $version; Python 3.11 to 3.14 is needed" ;;
esac

# What the environment is made from: another Python makes it anew, other requirements are installed into it.
interpreter=$("$python" -c 'import sys; print(sys.version, sys.base_prefix)')
requirements=$(cat requirements*.txt "$@"; printf '%s\n' "$@")
if [ "$(cat "$dir/.interpreter" 2>/dev/null)" != "$interpreter" ]; then
    say "making $dir with Python $version ($python)"
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        # Debian and Ubuntu split the venv module off.
        package="python$version-venv"
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
            say "Python $version has no venv module: installing $package"
            apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package" >/dev/null
        else
            die "Python $version has no venv module. Install it and run make again:
    sudo apt-get install $package"
        fi
    fi
    "$python" -m venv --clear "$dir"
    printf '%s\n' "$interpreter" >"$dir/.interpreter"
elif [ "$(cat "$dir/.requirements" 2>/dev/null)" = "$requirements" ]; then
    exit 0
fi

args=()
for file in "$@"; do args+=(-r "$file"); done
say "installing $* (a minute or two)"
"$dir/bin/python" -m pip install -qq --disable-pip-version-check "${args[@]}"
printf '%s\n' "$requirements" >"$dir/.requirements"
say "$dir is ready: ansible-core $("$dir/bin/python" -c 'from ansible.release import __version__; print(__version__)')"
