#!/bin/sh
# Make .venv where it is missing or broken, then install renyi into it.
#
#     scripts/setup.sh [EXTRAS]      for instance: scripts/setup.sh test,lint
#
# Needs Python 3.11 or newer with pip (PYTHON says which), no root and no apt.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
extras=${1:-}
export PIP_DISABLE_PIP_VERSION_CHECK=1

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "setup: '$python' is not Python 3.11 or newer;" \
        "name another with make PYTHON=/path/to/python3." >&2
    exit 1
fi

# An interrupted set-up leaves a folder that has Python but no working pip.
works() {
    .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
        >/dev/null 2>&1 && .venv/bin/python -m pip --version >/dev/null 2>&1
}

# Debian without python3-venv has no ensurepip, and its pip refuses to install
# anywhere but into a folder of our own: virtualenv from such a folder does the job.
create() {
    rm -rf .venv .boot
    if "$python" -m venv .venv >/dev/null 2>&1 && works; then
        return
    fi
    rm -rf .venv
    "$python" -m pip install --quiet --target .boot virtualenv
    PYTHONPATH=.boot "$python" -m virtualenv --quiet .venv
    rm -rf .boot
}

if ! works; then
    echo "setup: making .venv with $("$python" --version)"
    create
fi
echo "setup: installing renyi${extras:+[$extras]} into .venv"
.venv/bin/python -m pip install --quiet --editable ".${extras:+[$extras]}"
pwd -P > .venv/.checkout
