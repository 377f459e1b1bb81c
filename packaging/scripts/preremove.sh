#!/bin/sh
# Before the removal of a package, and not before an upgrade. Arguments of deb: "remove"; of rpm: 0.
set -e

case "$1" in
remove | 0) ;;
*) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
    systemctl disable --now landfall.socket landfall.service
elif command -v systemctl >/dev/null; then
    systemctl disable landfall.socket landfall.service
fi
