#!/bin/sh
# After the removal or purge of a package. The data stays: it has the keys of the site's clusters.
set -e

case "$1" in
remove | purge | 0) ;;
*) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
fi
if [ -d /var/lib/landfall ] && [ -n "$(ls -A /var/lib/landfall 2>/dev/null)" ]; then
    echo "landfall: the data of the site stays in /var/lib/landfall"
fi
