#!/bin/sh
# Unpack the system programs that some tests need into .tools, without root.
#
# One line per program: the command, then the Debian packages that contain it. apt lists
# the missing packages on which these depend. A command that is already on the PATH is
# not unpacked. The Makefile puts .tools/usr/bin on the PATH.
set -eu
cd "$(dirname "$0")/.."
programs=${PROGRAMS-"
plink2 plink2
chromium-headless-shell chromium-headless-shell fonts-dejavu-core fontconfig-config
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
# Lists of packages are split into words on purpose.
# shellcheck disable=SC2086
missing=$(apt-get install --simulate --quiet --no-install-recommends $missing |
    sed -n 's/^Inst \([^ ]*\).*/\1/p' | paste -sd' ')
echo "tools: unpacking $missing"
mkdir -p .tools/packages
# shellcheck disable=SC2086
(cd .tools/packages && apt-get download --quiet $missing)
for package in .tools/packages/*.deb; do
    dpkg -x "$package" .tools
done
rm -r .tools/packages

# Libraries and fonts lie beside the programs, where no system looks for them: each
# command becomes a wrapper that says where they are. Chromium finds its data beside
# itself, and so stays where it is.
cd .tools/usr
cat >fonts.conf <<FONTS
<fontconfig>
  <include ignore_missing="yes">/etc/fonts/fonts.conf</include>
  <dir>/usr/share/fonts</dir>
  <dir prefix="relative">share/fonts</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
  <alias><family>system-ui</family><prefer><family>DejaVu Sans</family></prefer></alias>
</fontconfig>
FONTS
folders=$(find lib -name '*.so*' -exec dirname {} \; | sort -u | sed 's|^|$here/|' | paste -sd:)
mkdir -p unpacked
for command in $commands; do
    program=lib/chromium/$command
    [ -x "$program" ] || { program=unpacked/$command; mv "bin/$command" "$program"; }
    cat >"bin/$command" <<WRAPPER
#!/bin/sh
here=\$(dirname "\$(readlink -f "\$0")")/..
export FONTCONFIG_FILE="\$here/fonts.conf"
LD_LIBRARY_PATH=$folders\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH} exec "\$here/$program" "\$@"
WRAPPER
    chmod +x "bin/$command"
done
