# Completion of cardan for bash: the command itself says what can follow.
_cardan() {
    local offer
    COMPREPLY=()
    while IFS= read -r offer; do
        COMPREPLY+=("$offer")
    done < <("$1" __complete bash "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null)
}
complete -o nospace -F _cardan cardan
