# Restarts a running unit after an upgrade, as %systemd_postun_with_restart does, unless the new program
# refuses the configuration: a restart would end a healthy daemon, and systemd would not start it again.
# %postun is not the place, because rpm runs %postun of the old package.
name=node-storage-driver-registrar
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload >/dev/null 2>&1 || :
    if said=$(env -i "PATH=$PATH" /usr/bin/node-storage-driver-registrar check 2>&1); then
        systemctl try-restart "$name.service" >/dev/null || :
    else
        # packaging/debian/postinst has the same words.
        {
            echo "$name: check refuses the configuration, so the new version was NOT started:"
            printf '%s\n' "$said" | sed 's/^/    /'
            if systemctl is-active --quiet "$name.service"; then
                echo "$name: the old process still runs with its old configuration, and the drivers stay registered"
            fi
            echo "$name: correct it, then: systemctl restart $name"
        } >&2
    fi
fi
