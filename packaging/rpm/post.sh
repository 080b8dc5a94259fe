# Does the same as %systemd_post, on releases with and without its helper. The distribution's presets
# decide whether the unit is enabled. The script does not start the unit, as usual for .rpm.
unit=node-storage-driver-registrar.service
if [ "$1" -eq 1 ]; then
    if [ -x /usr/lib/systemd/systemd-update-helper ]; then
        /usr/lib/systemd/systemd-update-helper install-system-units "$unit" || :
    else
        systemctl --no-reload preset "$unit" >/dev/null 2>&1 || :
    fi
fi
# EL 7 has no file triggers for these two commands.
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload >/dev/null 2>&1 || :
fi
journalctl --update-catalog >/dev/null 2>&1 || :
