# Completion of cardan for fish: the command itself says what can follow.
function __cardan_complete
    set -l typed (commandline -opc)
    set -l current (commandline -ct)
    $typed[1] __complete fish $typed[2..-1] "$current" 2>/dev/null
end
complete -c cardan -f -a '(__cardan_complete)'
