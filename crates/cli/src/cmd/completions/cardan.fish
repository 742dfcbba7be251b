# Completion of cardan for fish: the command itself says what can follow.
function __cardan_complete
    set -l typed (commandline -opc)
    set -l current (commandline -ct)
    set -l offers ($typed[1] __complete fish $typed[2..-1] "$current" 2>/dev/null)
    set -l before (string match -r '^\t(\d+)$' -- $offers[1])[2]
    if test -n "$before"
        # Behind `--` stands another command, completed as it always is.
        set -e typed[1..$before]
        complete -C (string join ' ' -- (string escape -- $typed) "$current")
    else if set -q offers[1]
        printf '%s\n' $offers
    end
end
complete -c cardan -f -a '(__cardan_complete)'
