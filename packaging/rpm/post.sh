# What %systemd_post does, on releases with and without its helper. Whether the unit is enabled
# is up to the distribution's presets; nothing is started, as usual there.
unit=node-storage-driver-registrar.service
if [ "$1" -eq 1 ]; then
    if [ -x /usr/lib/systemd/systemd-update-helper ]; then
        /usr/lib/systemd/systemd-update-helper install-system-units "$unit" || :
    else
        systemctl --no-reload preset "$unit" >/dev/null 2>&1 || :
    fi
fi
# EL 7 has no file triggers that would do these two.
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload >/dev/null 2>&1 || :
fi
journalctl --update-catalog >/dev/null 2>&1 || :
