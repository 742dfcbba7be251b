"""A legacy server over HTTP that answers tool calls in one odd manner. It prints its address first."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

manner = sys.argv[1]
pushed = threading.Condition()
replies = []


class Odd(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def say(self, status, body=b"", kind="application/json", **headers):
        self.send_response(status)
        if body or status == 200:
            self.send_header("Content-Type", kind)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def reply(self, number, result, **headers):
        self.say(200, json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode(), **headers)

    def events(self, text):
        self.say(200, text.encode(), "text/event-stream")

    def do_GET(self):
        if manner != "pushed":
            return self.say(405)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        with pushed:
            pushed.wait_for(lambda: replies)
        self.wfile.write(f"data: {json.dumps(replies[0])}\n\n".encode())
        self.close_connection = True

    def do_DELETE(self):
        self.say(200)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        number, method = message.get("id"), message.get("method")
        if number is None:
            self.say(202)
        elif method == "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "odd", "version": "1"}
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            self.reply(number, result, Mcp_Session_Id="s-1")
        elif method == "tools/list":
            self.reply(number, {"tools": [{"name": "odd", "inputSchema": {"type": "object"}}]})
        elif method == "tools/call":
            self.call(number)
        else:
            self.say(404)

    def call(self, number):
        fine = {"jsonrpc": "2.0", "id": number, "result": {"content": [{"type": "text", "text": "fine"}]}}
        if manner == "cut event":
            self.events('data: {"jsonrpc":"2.0","id":%d,"resu\n\n' % number)
        elif manner == "no event":
            self.events("data: oops\n\n")
        elif manner == "half an event":
            self.events('data: {"jsonrpc":"2.0","id":%d,"resu' % number)
        elif manner == "empty stream":
            self.events("")
        elif manner == "empty":
            self.say(200)
        elif manner == "accepted":
            self.say(202)
        elif manner == "pushed":
            with pushed:
                replies.append(fine)
                pushed.notify_all()
            self.say(202)
        elif manner == "busy":
            self.say(429, b"slow down", "text/plain", Retry_After="7")
        elif manner == "down":
            self.say(503)
        elif manner == "page":
            self.say(200, b"<title>Log in</title>", "text/html")


server = ThreadingHTTPServer(("127.0.0.1", 0), Odd)
server.daemon_threads = True
print(f"http://127.0.0.1:{server.server_port}/mcp", flush=True)
server.serve_forever()
