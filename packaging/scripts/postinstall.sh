#!/bin/sh
# After the installation or upgrade of a package. Arguments of deb: "configure" and the version of
# before, if any; of rpm: the number of versions that are installed now.
set -e

upgrade=
case "$1" in
configure) [ -z "$2" ] || upgrade=yes ;;
abort-*) exit 0 ;;
*) [ "$1" -lt 2 ] || upgrade=yes ;;
esac

systemd-sysusers landfall.conf
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
if [ -n "$upgrade" ]; then
    # Clients wait meanwhile, because landfall.socket stays open. A failure is of the configuration
    # or the data, not of the package.
    systemctl try-restart landfall.service ||
        echo "landfall: the service did not start; journalctl -u landfall says why" >&2
else
    # The service has an open setup until its first administrator exists, so a person starts it.
    echo "landfall: edit /etc/landfall/config.yaml, then: systemctl enable --now landfall.socket landfall.service"
fi
