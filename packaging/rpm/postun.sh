# Does the same as %systemd_postun. After an upgrade, %posttrans of the new package restarts the unit.
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload >/dev/null 2>&1 || :
fi
if [ "$1" -eq 0 ]; then
    rm -rf /run/node-storage-driver-registrar
    # The package's directories, which its format does not list, and the directory that the daemon
    # created. A directory that is not empty belongs to another program.
    for directory in /vdata/storage/plugins_registry \
        /usr/lib/node-storage-driver-registrar \
        /usr/share/doc/node-storage-driver-registrar/config \
        /usr/share/doc/node-storage-driver-registrar/docs \
        /usr/share/doc/node-storage-driver-registrar/examples/drivers \
        /usr/share/doc/node-storage-driver-registrar/examples/prometheus \
        /usr/share/doc/node-storage-driver-registrar/examples/readiness \
        /usr/share/doc/node-storage-driver-registrar/examples \
        /usr/share/doc/node-storage-driver-registrar \
        /usr/share/licenses/node-storage-driver-registrar \
        /etc/node-storage-driver-registrar/config.d \
        /etc/node-storage-driver-registrar; do
        rmdir "$directory" >/dev/null 2>&1 || :
    done
    journalctl --update-catalog >/dev/null 2>&1 || :
fi
