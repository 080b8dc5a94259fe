# Does the same as %systemd_preun: disables and stops the units before the last version is removed. Then
# removes what a stop with on_stop = "keep" or a crash has left: the kubelet would keep drivers that no
# registrar serves.
daemon=node-storage-driver-registrar.service
timer=node-storage-driver-registrar-verify.timer
verify=node-storage-driver-registrar-verify.service
if [ "$1" -eq 0 ]; then
    if [ -x /usr/lib/systemd/systemd-update-helper ]; then
        /usr/lib/systemd/systemd-update-helper remove-system-units "$timer" "$verify" "$daemon" || :
    elif [ -d /run/systemd/system ]; then
        systemctl --no-reload disable --now "$timer" "$verify" "$daemon" >/dev/null 2>&1 || :
    else
        systemctl --no-reload disable "$timer" "$daemon" >/dev/null 2>&1 || :
    fi
    /usr/bin/node-storage-driver-registrar clean-up || :
fi
