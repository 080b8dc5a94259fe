
# The drivers of the running daemon.
function __node_storage_driver_registrar_drivers
    set -l words (commandline -opc) (commandline -ct)
    $words[1] complete-drivers -- $words[2..-1] 2>/dev/null
end
complete -c node-storage-driver-registrar -n "__fish_seen_subcommand_from status wait reannounce withdraw publish" -f -a "(__node_storage_driver_registrar_drivers)" -d driver
complete -c node-storage-driver-registrar -n "__fish_seen_subcommand_from inspect" -a "(__node_storage_driver_registrar_drivers)" -d driver
