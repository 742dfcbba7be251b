#!/usr/bin/env python3
"""Peers that misbehave over stdio, each in one way. Nothing but the standard library.

    evil.py server <behaviour>                 a server, to be started by the client under test
    evil.py client <behaviour> -- <command>    a client, which starts the server under test
    evil.py list                               every behaviour, one per line

A server behaves, except where its behaviour says otherwise: mostly at a call of the tool `evil`. Its
tool `echo` says the message back and tells what the client replied to the server's own calls.

A client plays its part, sees whether the next valid call still works, and prints one JSON object:
what the server sent until then, how it ended, how much memory it took at most. It judges nothing:
what is right stands in the tests.
"""

import json
import sys

# Nothing is left behind in the folder.
sys.dont_write_bytecode = True

from clients import CLIENTS, Client  # noqa: E402
from servers import SERVERS, Server  # noqa: E402


def main(arguments):
    match arguments:
        case ["server", behaviour] if behaviour in SERVERS:
            Server(*SERVERS[behaviour]).serve()
        case ["client", behaviour, "--", *command] if behaviour in CLIENTS and command:
            print(json.dumps(Client(command).play(CLIENTS[behaviour])))
        case ["list"]:
            for role, table in [("server", SERVERS), ("client", CLIENTS)]:
                for behaviour in table:
                    print(role, behaviour)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
