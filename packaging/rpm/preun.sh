# What %systemd_preun does: before the last version goes, the unit is disabled and stopped. What a
# stop leaves under on_stop = "keep", or a crash, goes as well: the kubelet would hold drivers that
# nobody looks after.
unit=node-storage-driver-registrar.service
if [ "$1" -eq 0 ]; then
    if [ -x /usr/lib/systemd/systemd-update-helper ]; then
        /usr/lib/systemd/systemd-update-helper remove-system-units "$unit" || :
    elif [ -d /run/systemd/system ]; then
        systemctl --no-reload disable --now "$unit" >/dev/null 2>&1 || :
    else
        systemctl --no-reload disable "$unit" >/dev/null 2>&1 || :
    fi
    /usr/bin/node-storage-driver-registrar clean-up || :
fi
