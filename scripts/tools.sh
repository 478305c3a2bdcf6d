#!/bin/sh
# Unpack the system programs that some tests need into .tools, without root.
#
# One line per program: the command, then the Debian packages which hold it and
# what it needs (apt-get download does not follow dependencies). A command already
# on the PATH is left alone; the Makefile puts .tools/usr/bin on it.
set -eu
cd "$(dirname "$0")/.."
programs=${PROGRAMS-"
plink2 plink2 libblas3 libdeflate0 libgfortran5 liblapack3 libquadmath0
"}

missing= commands=
while read -r command packages; do
    [ -n "$command" ] || continue
    if [ -x ".tools/usr/bin/$command" ] || command -v "$command" >/dev/null; then
        echo "tools: $command is here"
    else
        missing="$missing $packages" commands="$commands $command"
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

# Libraries lie beside the programs, where no system looks for them: each command
# becomes a wrapper that says where they are.
cd .tools/usr
folders=$(find lib -name '*.so*' -exec dirname {} \; | sort -u | sed 's|^|$here/|' | paste -sd:)
mkdir -p unpacked
for command in $commands; do
    mv "bin/$command" unpacked/
    cat >"bin/$command" <<WRAPPER
#!/bin/sh
here=\$(dirname "\$(readlink -f "\$0")")/..
LD_LIBRARY_PATH=$folders\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH} exec "\$here/unpacked/$command" "\$@"
WRAPPER
    chmod +x "bin/$command"
done
