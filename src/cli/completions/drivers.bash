
# The drivers of the running daemon; without one, the completions above, which know the program as nsdr.
_node_storage_driver_registrar() {
    local drivers
    drivers=$("$1" complete-drivers -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [[ -n $drivers ]]; then
        # The program prints letters, digits, dots and dashes only: compgen expands its words.
        mapfile -t COMPREPLY < <(compgen -W "$drivers" -- "$2")
        [[ ${#COMPREPLY[@]} -eq 0 ]] || return 0
    fi
    _nsdr "$@"
}

complete -r nsdr
if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -F _node_storage_driver_registrar -o nosort -o bashdefault -o default node-storage-driver-registrar
else
    complete -F _node_storage_driver_registrar -o bashdefault -o default node-storage-driver-registrar
fi
