
# The drivers of the running daemon, and the completions of the function above.
functions[_node-storage-driver-registrar-options]=$functions[_node-storage-driver-registrar]
_node-storage-driver-registrar() {
    local -a drivers
    drivers=(${(f)"$(_call_program drivers ${(q)words[1]} complete-drivers -- ${(q)words[2,CURRENT]} 2>/dev/null)"})
    if (( $#drivers )); then
        local expl found=1
        _wanted drivers expl driver compadd -a drivers && found=0
        [[ $words[(r)inspect] != inspect ]] || { _files && found=0 }
        return found
    fi
    _node-storage-driver-registrar-options "$@"
}

if [ "$funcstack[1]" = "_node-storage-driver-registrar" ]; then
    _node-storage-driver-registrar "$@"
else
    compdef _node-storage-driver-registrar node-storage-driver-registrar
fi
