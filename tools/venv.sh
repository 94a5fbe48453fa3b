#!/bin/sh
# Build an environment in the folder $1, or leave it alone when it is current: when it was built from the setup.cfg that
# is here now. It gets what the other arguments say, as pip takes them; without any it is the development environment.
# $PYTHON names the interpreter to use; otherwise the first on the path that is new enough.
set -eu

folder=$1
shift
[ $# -gt 0 ] || set -- -e ".[dev,demo]"
stamp=$folder/.slatespark-stamp
wanted="$(cat setup.cfg pyproject.toml | cksum) $*"

if [ -x "$folder/bin/python" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
    exit 0
fi

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11 python; do
        if [ -n "$candidate" ] && is_new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    echo "No Python 3.11 or later on the path: install one, or set PYTHON." >&2
    return 1
}

if ! { [ -x "$folder/bin/python" ] && is_new_enough "$folder/bin/python" && "$folder/bin/python" -m pip --version >/dev/null 2>&1; }; then
    python=$(find_python)
    echo "Building $folder with $("$python" --version)."
    rm -rf "$folder"
    # Some distributions split the part of venv that brings pip into a package of its own; their pip can stand in for it.
    "$python" -m venv "$folder" >/dev/null 2>&1 || {
        rm -rf "$folder"
        "$python" -m venv --without-pip "$folder"
        "$python" -m pip --python "$folder/bin/python" install --quiet pip || {
            echo "$python has neither venv with pip nor pip: install the package python3-venv." >&2
            rm -rf "$folder"
            exit 1
        }
    }
fi

echo "Installing $* and what it needs into $folder; the first time this takes a few minutes."
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade "pip>=23.1"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
echo "$wanted" >"$stamp"
