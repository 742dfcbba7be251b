# Completion of cardan for bash: the command itself says what can follow.
_cardan() {
    local offer kind=
    COMPREPLY=()
    while IFS= read -r offer; do
        case $offer in
            $'\t'*) kind=${offer#$'\t'} ;;
            *) COMPREPLY+=("$offer") ;;
        esac
    done < <("$1" __complete bash "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null)
    [[ -z $kind ]] || _cardan_command "$kind" "$2"
}
# Behind `--` stands another command: completed as it always is where bash-completion is loaded, else programs, then files.
_cardan_command() {
    local offset at=1 offer
    for offset in _comp_command_offset _command_offset; do
        declare -F "$offset" >/dev/null || continue
        while [[ ${COMP_WORDS[at]} != -- ]]; do
            (( ++at < COMP_CWORD )) || return
        done
        compopt +o nospace 2>/dev/null
        COMPREPLY=()
        "$offset" "$((at + 1))"
        return
    done
    [[ $1 == command && $2 != */* ]] || return
    COMPREPLY=()
    while IFS= read -r offer; do
        COMPREPLY+=("$offer ")
    done < <(compgen -c -- "$2")
}
complete -o nospace -F _cardan cardan
