#compdef cardan
# Completion of cardan for zsh: the command itself says what can follow.
_cardan() {
    local line end value about
    local -a lines words_ words_shown open_ open_shown
    lines=("${(@f)$("${(Q)words[1]}" __complete zsh "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    if [[ $lines[1] == -$'\t'* ]]; then
        # Behind `--` stands another command, completed as it always is.
        value=${${lines[1]#*$'\t'}%%$'\t'*}
        shift $value words
        (( CURRENT -= value ))
        _normal
        return
    fi
    for line in $lines; do
        end=${line%%$'\t'*}
        line=${line#*$'\t'}
        value=${line%%$'\t'*}
        about=${line#*$'\t'}
        [[ -n $about ]] && about="$value  -- $about" || about=$value
        if [[ $end == + ]]; then
            open_+=("$value")
            open_shown+=("$about")
        else
            words_+=("$value")
            words_shown+=("$about")
        fi
    done
    (( $#words_ )) && compadd -l -V words -d words_shown -- $words_
    (( $#open_ )) && compadd -l -V open -S '' -d open_shown -- $open_
    (( $#words_ + $#open_ ))
}
if [[ $funcstack[1] == _cardan ]]; then
    _cardan "$@"
else
    compdef _cardan cardan
fi
