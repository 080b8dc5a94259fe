#!/bin/bash
# Reports to node-problem-detector whether a driver is ready, as a custom plugin:
#
#   check-storage-driver.sh DRIVER [ADDRESS]
#
# DRIVER is the id of the driver, as `node-storage-driver-registrar status` shows it. ADDRESS is the
# registrar's http.listen: unix:/PATH (the default is below), or HOST:PORT.
#
# Exit codes: 0 ready, 1 not ready, 2 not known (no answer, or no driver of this id). The first line of
# the output is the message of the node's condition.
#
# A Unix socket needs curl. For HOST:PORT bash is enough: node-problem-detector's image has no curl.

readonly OK=0 NONOK=1 UNKNOWN=2
# Below the timeout in the plugin's configuration.
readonly SECONDS_TO_WAIT=3

driver=$1
address=${2:-unix:/run/node-storage-driver-registrar/http.sock}

unknown() {
    echo "readiness of $driver not known: $1"
    exit "$UNKNOWN"
}

# Prints the status line, the headers and the body.
ask() {
    local page="/readyz/$driver" host=${address%:*} port=${address##*:} connection line
    if [[ $address == unix:* ]]; then
        curl --silent --include --globoff --max-time "$SECONDS_TO_WAIT" \
            --unix-socket "${address#unix:}" "http://localhost$page"
        return
    fi
    # An IPv6 address is in brackets.
    host=${host#[} host=${host%]}
    { exec {connection}<> "/dev/tcp/$host/$port"; } 2> /dev/null || return
    printf 'GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' "$page" >&"$connection"
    while IFS= read -r -t "$SECONDS_TO_WAIT" -u "$connection" line || [[ -n $line ]]; do
        printf '%s\n' "$line"
        line=
    done
}

case $driver in
'' | *[!A-Za-z0-9._-]*)
    driver=${driver:-without an id}
    unknown "an id has letters, digits, '.', '_' and '-'"
    ;;
esac

if [[ $address == unix:* ]] && ! command -v curl > /dev/null; then
    unknown "curl is not installed"
fi

answer=$(ask)
answer=${answer//$'\r'/}
read -r _ code _ <<< "$answer"
# After the first empty line.
body=${answer#*$'\n\n'}

case $code in
200)
    echo "$driver is ready"
    exit "$OK"
    ;;
503)
    echo "${body%%$'\n'*}"
    exit "$NONOK"
    ;;
404) unknown "the registrar has no driver of this id" ;;
'') unknown "the registrar does not answer on $address" ;;
*) unknown "the registrar answered $code" ;;
esac
