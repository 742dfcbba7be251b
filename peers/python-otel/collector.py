"""A collector on OpenTelemetry's own messages: takes spans by OTLP over HTTP and prints each as a line of JSON.

It is strict: a body that is not whole, or that has a field which the messages do not know, is refused with 400.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

printing = Lock()


def tell(line: dict) -> None:
    with printing:
        print(json.dumps(line), flush=True)


def unknown(message: Message) -> bool:
    """Is there anything in it, at any depth, that its definition does not know?"""
    if len(UnknownFieldSet(message)):
        return True
    for field, value in message.ListFields():
        if field.message_type is not None:
            parts = value if field.is_repeated else [value]
            if any(unknown(part) for part in parts):
                return True
    return False


def pairs(attributes) -> dict:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in attributes}


def span(service: str, one: Span) -> dict:
    assert len(one.trace_id) == 16 and any(one.trace_id), "a trace has 16 bytes that are not all zero"
    assert len(one.span_id) == 8 and any(one.span_id), "a span has 8 bytes that are not all zero"
    assert len(one.parent_span_id) in (0, 8), "a parent has 8 bytes, or is none"
    assert 0 < one.start_time_unix_nano <= one.end_time_unix_nano, "it ends after it begins"
    return {
        "service": service,
        "name": one.name,
        "kind": Span.SpanKind.Name(one.kind),
        "trace": one.trace_id.hex(),
        "span": one.span_id.hex(),
        "parent": one.parent_span_id.hex(),
        "state": one.trace_state,
        "flags": one.flags,
        "status": Status.StatusCode.Name(one.status.code),
        "attributes": {key: str(value) for key, value in pairs(one.attributes).items()},
    }


class Collector(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        status = 200
        try:
            assert self.path == "/v1/traces", self.path
            assert self.headers["content-type"] == "application/x-protobuf", self.headers["content-type"]
            request = ExportTraceServiceRequest.FromString(body)
            assert not unknown(request), "there is a field that nobody knows"
            for of_resource in request.resource_spans:
                service = pairs(of_resource.resource.attributes)["service.name"]
                for scope in of_resource.scope_spans:
                    for one in scope.spans:
                        tell(span(service, one))
        except (AssertionError, DecodeError, KeyError) as why:
            tell({"wrong": repr(why)})
            status = 400
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(status)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_) -> None:
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    tell({"url": f"http://127.0.0.1:{server.server_port}"})
    # Whoever started it ends it by closing its stdin.
    from threading import Thread

    Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()
