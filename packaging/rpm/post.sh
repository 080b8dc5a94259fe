# Does the same as %systemd_post, on releases with and without its helper. The presets decide whether the
# units are enabled: the distribution's for the daemon, and for the timer the package's own, which says no,
# unless the operator has one. The script does not start a unit, as usual for .rpm.
daemon=node-storage-driver-registrar.service
timer=node-storage-driver-registrar-verify.timer
if [ "$1" -eq 1 ]; then
    if [ -x /usr/lib/systemd/systemd-update-helper ]; then
        /usr/lib/systemd/systemd-update-helper install-system-units "$daemon" "$timer" || :
    else
        systemctl --no-reload preset "$daemon" "$timer" >/dev/null 2>&1 || :
    fi
fi
# EL 7 has no file triggers for these two commands.
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload >/dev/null 2>&1 || :
fi
journalctl --update-catalog >/dev/null 2>&1 || :
