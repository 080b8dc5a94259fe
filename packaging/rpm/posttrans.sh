# Restarts a running unit after an upgrade, as %systemd_postun_with_restart does, but not if the new program
# refuses the configuration: that would end a healthy daemon, and systemd would not start it again. Not in
# %postun, which is the script of the old package.
name=node-storage-driver-registrar
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload >/dev/null 2>&1 || :
    if said=$(/usr/bin/node-storage-driver-registrar check 2>&1); then
        systemctl try-restart "$name.service" >/dev/null || :
    else
        # The words of packaging/debian/postinst.
        {
            echo "$name: check refuses the configuration, so the new version was NOT started:"
            echo "$said" | sed 's/^/    /'
            if systemctl is-active --quiet "$name.service"; then
                echo "$name: the old process still runs with its old configuration, and the drivers stay registered"
            fi
            echo "$name: correct it, then: systemctl restart $name"
        } >&2
    fi
fi
