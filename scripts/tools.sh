#!/bin/sh
# Unpack the system programs that some tests need into .tools, without root.
#
# One line per program: the command, then the Debian packages which hold it and
# what it needs (apt-get download does not follow dependencies). A command already
# on the PATH is left alone; the Makefile puts .tools/usr/bin on it.
set -eu
cd "$(dirname "$0")/.."
programs=${PROGRAMS-"
"}

missing=
while read -r command packages; do
    [ -n "$command" ] || continue
    if [ -x ".tools/usr/bin/$command" ] || command -v "$command" >/dev/null; then
        echo "tools: $command is here"
    else
        missing="$missing $packages"
    fi
done <<LIST
$programs
LIST

[ -n "$missing" ] || { echo "tools: nothing to unpack"; exit 0; }
echo "tools: unpacking$missing"
mkdir -p .tools/packages
# The list of packages is split into words on purpose.
# shellcheck disable=SC2086
(cd .tools/packages && apt-get download --quiet $missing)
for package in .tools/packages/*.deb; do
    dpkg -x "$package" .tools
done
rm -r .tools/packages
