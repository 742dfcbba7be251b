//! Every bound in the system, in one place.
//!
//! A buffer, queue, table or wait without a row here is a bug. Units come last in the name.
//! Cores enforce counts and times, links enforce bytes before they buffer. What happens at
//! each bound is written beside it and tested where it is enforced.
//!
//! Four kinds of numbers stand elsewhere, as constants beside the code that they belong to, because nobody
//! has a reason to choose them:
//! * what a schema or a template may cost (`cardan_schema::bounds`, [`uri_template`]): a guard against
//!   hostile text, in units that only that code understands;
//! * what the protocol itself fixes, such as the number of completions in one answer;
//! * steps, not bounds: how much is read or written before others get their turn;
//! * pieces of what is bounded here: the last words of a child are the end of `stderr_bytes`.
//!
//! [`uri_template`]: crate::model::uri_template

use std::time::Duration;

pub mod config;
pub mod fleet;
pub mod lines;
pub mod replicas;
pub mod secret;
pub mod trace;

/// The bounds of one session and the link that carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// One message. A longer line is skipped to its newline and reported; the link lives on.
    pub frame_bytes: usize,
    /// One HTTP request body. Refused with 413 before it is buffered.
    pub body_bytes: usize,
    /// One server-sent event. A longer one is skipped to its end and reported.
    pub event_bytes: usize,
    /// One `event` or `id` value of an event. A longer one makes the event count as too long.
    pub event_field_bytes: usize,
    /// The head of one HTTP request: names and values of its headers. Refused with 431.
    pub head_bytes: usize,
    /// Headers of parameters that nothing here mirrors, as they are passed on with one modern call. One more is refused
    /// with 431, where calls are passed on; a server ignores them all.
    pub stray_headers: usize,
    /// Names and values of those headers together. The same.
    pub stray_header_bytes: usize,
    /// Redirects followed for one HTTP request. One more fails it.
    pub redirect_hops: usize,
    /// Connections attempted in a row for a push lane, or to resume a reply, without any event. Then the
    /// push lane is given up, or the call is lost.
    pub reconnects: usize,
    /// Legacy: new sessions in a row without any answered call. Then calls fail instead.
    pub renewals: usize,
    /// One WebSocket message. A longer one closes the link with 1009.
    pub socket_message_bytes: usize,
    /// One WebSocket frame of ours: a longer message goes out in several. Received frames are bounded by
    /// their message, for common peers send every message as one frame.
    pub socket_frame_bytes: usize,
    /// Pongs that wait to be written. One more closes the link: the peer asks and does not read.
    pub socket_pongs: usize,
    /// Nesting of JSON arrays and objects. Deeper is a parse error.
    pub depth: usize,
    /// Length of a call id as spelled. Longer is an invalid request.
    pub id_bytes: usize,
    /// Entries of a batch. More is an invalid request as a whole.
    pub batch_entries: usize,
    /// Calls of the peer in flight. The next one is refused; we never stop reading.
    pub calls_inbound: usize,
    /// Our own calls in flight. The next one fails at once, not sent.
    pub calls_outbound: usize,
    /// Ids of our finished calls that are remembered, so that a late reply is told from a foreign one.
    pub tombstones: usize,
    /// Rounds of asks for one call. The next round fails the call.
    pub ask_rounds: usize,
    /// Asks in one round. More is an invalid result.
    pub asks_per_round: usize,
    /// Client: asks of one server per minute. One more is refused, and a finding.
    pub asks_per_minute: u32,
    /// Turns of tool use in one conversation with the client's model. One more is refused.
    pub tool_turns: usize,
    /// Server: request states that are remembered as used, where each is good for one use. Then calls
    /// with answers are refused until the oldest expire.
    pub states_redeemed: usize,
    /// Standing interests of one peer. The next one is refused.
    pub listens: usize,
    /// Resource addresses in one interest. More is refused.
    pub listen_uris: usize,
    /// Legacy sessions of one endpoint. The next one is refused with 503.
    pub sessions: usize,
    /// Connections of one listener. The next ones wait to be accepted.
    pub connections: usize,
    /// Open lanes of one session. The next one is refused.
    pub lanes: usize,
    /// Messages that were posted for one stream of the old HTTP+SSE and wait to be read. One more is refused with 429, as it is
    /// beyond `calls_inbound` of them; where none waits, one is taken whatever its size.
    pub inlet_bytes: usize,
    /// Bytes waiting to be written to one link. Progress and log notes are dropped first, counted. As much of steps, and as much
    /// of other notes, may wait to be taken by its driver.
    pub outbox_bytes: usize,
    /// Notes waiting for the application. The oldest is dropped and counted.
    pub notes_queued: usize,
    /// The same in bytes, of notes that are kept for whoever comes late. The newest is kept whatever its size.
    pub notes_bytes: usize,
    /// Findings kept. Later ones are only counted.
    pub findings: usize,
    /// Legacy resumption: events kept for one session. The oldest is forgotten.
    pub replay_events: usize,
    /// Legacy resumption: bytes kept for one session. The oldest is forgotten.
    pub replay_bytes: usize,
    /// Legacy resumption: replies too large to be kept among those, of one session. Its oldest is forgotten.
    pub shelf_session_bytes: usize,
    /// The same of all sessions of an endpoint. The oldest of all is forgotten.
    pub shelf_bytes: usize,
    /// Lines in a row that are not messages. One more closes the link.
    pub noise_lines: usize,
    /// Pages of one listing. One more ends the listing with an error.
    pub pages: usize,
    /// Client: results kept while they are fresh. More are fetched each time.
    pub cache_entries: usize,
    /// Client: tools whose output schema is remembered. Results of others cannot be checked.
    pub tools_remembered: usize,
    /// Progress notes told per call and second. More are coalesced to the newest. Steps, which are passed on, are bounded by
    /// `outbox_bytes` instead.
    pub progress_per_second: u32,
    /// Log notes sent on one link per second. More are dropped and counted.
    pub log_per_second: u32,
    /// Tasks of one principal, whatever their state. The next one is refused.
    pub tasks_per_principal: usize,
    /// Tasks of all principals together. The next one is refused.
    pub tasks: usize,
    /// Results kept for the tasks of one principal. A task whose result does not fit fails.
    pub task_result_bytes: usize,
    /// Files of one skill, its manifest included. More cannot be registered.
    pub skill_files: usize,
    /// All files of one skill. More cannot be registered.
    pub skill_bytes: usize,
    /// What a child wrote to stderr last, kept for error reports.
    pub stderr_bytes: usize,
    /// Excerpts of foreign text in findings and errors.
    pub excerpt_bytes: usize,
    /// Why the peer gives up a call, as it put it. What is longer is cut.
    pub reason_bytes: usize,

    /// Waiting for the answer to the era probe, then the peer counts as legacy; never more than half of `open_timeout`. Where
    /// silence says nothing of the era, as over HTTP, the probe has `open_timeout`, and then connecting fails.
    pub probe_timeout: Duration,
    /// Opening a session in all, from the probe to the answer to `initialize`; then connecting fails.
    pub open_timeout: Duration,
    /// A call without reply and without progress. Then it is cancelled on the wire.
    pub call_idle_timeout: Duration,
    /// A call in all, whatever the progress. Then it is cancelled on the wire.
    pub call_total_timeout: Duration,
    /// A peer that does not take our bytes. Then the link is closed.
    pub stall_timeout: Duration,
    /// A legacy session without any work. Then it is forgotten.
    pub session_idle_timeout: Duration,
    /// A legacy session whose calls go on with nobody to read what they say, and whose client says nothing either. Then they are
    /// given up, and it is forgotten.
    pub session_unread_timeout: Duration,
    /// Waiting for running calls when we close.
    pub drain_timeout: Duration,
    /// Our own calls in progress when the peer closes our stdin; shorter than the wait before a TERM.
    pub eof_grace: Duration,
    /// A child after its stdin is closed, before TERM.
    pub child_eof_grace: Duration,
    /// A child's group after TERM, before KILL.
    pub child_term_grace: Duration,
    /// Reaping a child's group after KILL.
    pub child_kill_grace: Duration,
    /// A child's stdout after the child itself has ended, while someone else holds it open. Then the link ends.
    pub child_pipe_grace: Duration,
    /// Waiting for the answer to our goodbye: the closing DELETE of a legacy HTTP session, the closing handshake
    /// of a WebSocket, or `shutdown` where the dialect has it.
    pub farewell_timeout: Duration,
    /// Server: the TLS handshake of one connection. Then it is closed.
    pub handshake_timeout: Duration,
    /// The head of an HTTP request. Then the connection is closed.
    pub head_timeout: Duration,
    /// The body of an HTTP request, from first byte to last. Then it is refused with 408.
    pub body_timeout: Duration,
    /// Making one connection: name, TCP, proxy and TLS. Then the request fails, not sent.
    pub connect_timeout: Duration,
    /// The push lane's way to the server before calls follow: what a server pushes while the lane is not open,
    /// it may drop.
    pub push_head_start: Duration,
    /// A connection that is kept for the next request. Then it is closed.
    pub pool_idle_timeout: Duration,
    /// The first wait before a lane is opened again; doubled each time, unless the server names its own.
    pub reconnect_wait_min: Duration,
    /// The longest wait before a lane is opened again, whatever the server names.
    pub reconnect_wait_max: Duration,
    /// Silence on a reply that was resumed, before it is asked for once more; doubled each time, up to what is silence on
    /// any stream. Some servers replay what they kept, and carry nothing after it.
    pub resumed_silence: Duration,
    /// Legacy resumption: a large reply, for its client to come back. Then it is forgotten.
    pub shelf_ttl: Duration,
    /// Silence on a stream we serve, before a keep-alive comment, or on a WebSocket, before a ping.
    pub keep_alive_interval: Duration,
    /// Silence on a stream or WebSocket we read, before the link counts as lost.
    pub read_idle_timeout: Duration,
    /// How long sealed request state can be redeemed.
    pub request_state_ttl: Duration,
    /// How long a task is kept from its creation when the caller has no wish.
    pub task_ttl: Duration,
    /// The longest that a task is kept, whatever the caller wishes. Then it is stopped and forgotten.
    pub task_ttl_max: Duration,
    /// How often a task should be looked at: what we tell callers, and do when a server tells nothing.
    pub task_poll_interval: Duration,
    /// The least time between two looks at a task, whatever the server says.
    pub task_poll_floor: Duration,
    /// Between two looks at the configuration's files. A change is taken over when it looks the same twice, so a file
    /// that is being written is left alone.
    pub config_poll_interval: Duration,
}

impl Limits {
    /// The defaults, each with its reason.
    pub const DEFAULT: Self = Self {
        frame_bytes: 16 * MIB, // screenshots and PDFs as base64 fit, a runaway child does not
        body_bytes: 4 * MIB,   // what the other SDKs accept
        event_bytes: 16 * MIB, // an event carries one frame
        event_field_bytes: 8 << 10, // ids come back in a header, and servers refuse longer ones
        head_bytes: 32 << 10,  // a large token and a page of mirrored params
        stray_headers: 64,     // many more parameters than a person routes by
        stray_header_bytes: 8 << 10, // half of the head that most servers take
        redirect_hops: 3,      // a moved host and a trailing slash, not a loop
        reconnects: 5,
        renewals: 3,                    // a restart or two, not a server that forgets at once
        socket_message_bytes: 16 * MIB, // a message carries one frame
        socket_frame_bytes: 4 * MIB,    // pings get through between the frames of a large message
        socket_pongs: 64,
        depth: 128,        // serde_json's own bound, so raw and typed agree
        id_bytes: 256,     // a UUID with a prefix fits many times
        batch_entries: 64, // one revision only, and it pipelines anyway
        calls_inbound: 256,
        calls_outbound: 4096, // a gateway shares one upstream among many clients
        tombstones: 1024,     // at 30 s of timeout, far more than can be late
        ask_rounds: 16,       // a form wizard, not a loop
        asks_per_round: 32,
        asks_per_minute: 240, // roots and sampling answer themselves; no person is that fast
        tool_turns: 32,       // a long errand, not a loop
        states_redeemed: 1 << 16, // a hundred per second for as long as they are good
        listens: 64,
        listen_uris: 1024,
        sessions: 65_536, // at 20 KiB each, a gigabyte and a bit
        connections: 16_384,
        lanes: 512,
        inlet_bytes: 16 * MIB, // four of the largest bodies; a session that is driven leaves none waiting
        outbox_bytes: 64 * MIB, // four of the largest frames
        notes_queued: 1024,
        notes_bytes: 4 * MIB, // four thousand bytes each
        findings: 256,
        replay_events: 256,
        replay_bytes: MIB,
        shelf_session_bytes: 16 * MIB, // one of the largest frames, or many usual ones
        shelf_bytes: 64 * MIB,         // as much as one link may leave unread
        noise_lines: 1000,             // a chatty banner, not a program that speaks something else
        pages: 1000,
        cache_entries: 1024,      // lists and what is read again and again
        tools_remembered: 8192,   // many more than a model can choose from
        progress_per_second: 100, // what a screen can show
        log_per_second: 1000,     // a chatty server, not a loop that logs
        tasks_per_principal: 128, // more than a person can follow
        tasks: 1024,
        task_result_bytes: 16 * MIB, // one of the largest frames, or many usual ones
        skill_files: 512,            // what the extension advises
        skill_bytes: 16 * MIB,       // what the extension advises
        stderr_bytes: 64 << 10,
        excerpt_bytes: 256,
        reason_bytes: 1 << 10,                 // a line for a log, and room to explain it
        probe_timeout: Duration::from_secs(5), // half a second is too short for a container to start
        open_timeout: Duration::from_secs(30),
        call_idle_timeout: Duration::from_secs(30),
        call_total_timeout: Duration::from_secs(600),
        stall_timeout: Duration::from_secs(30),
        session_idle_timeout: Duration::from_secs(300),
        session_unread_timeout: Duration::from_secs(900), // half as long again as a call usually may take in all
        drain_timeout: Duration::from_secs(5),
        eof_grace: Duration::from_secs(1),
        child_eof_grace: Duration::from_secs(2),
        child_term_grace: Duration::from_secs(2),
        child_kill_grace: Duration::from_secs(1),
        child_pipe_grace: Duration::from_millis(500), // what it said is in the pipe; nothing more is owed
        farewell_timeout: Duration::from_secs(2),
        handshake_timeout: Duration::from_secs(10), // two round trips and a busy phone
        head_timeout: Duration::from_secs(30),
        body_timeout: Duration::from_secs(60),
        connect_timeout: Duration::from_secs(10),
        push_head_start: Duration::from_millis(250), // a far server; few answer late, and those cost us this
        pool_idle_timeout: Duration::from_secs(60),  // servers close idle connections soon after
        reconnect_wait_min: Duration::from_secs(1),
        reconnect_wait_max: Duration::from_secs(60),
        resumed_silence: Duration::from_secs(2), // most calls are over by then
        shelf_ttl: Duration::from_secs(60),      // five attempts with doubling waits, and as long again
        keep_alive_interval: Duration::from_secs(15), // proxies cut at 30 to 60 s of silence
        read_idle_timeout: Duration::from_secs(45), // three keep-alives missed
        request_state_ttl: Duration::from_secs(600), // time for a person to answer
        task_ttl: Duration::from_secs(600),
        task_ttl_max: Duration::from_secs(86_400), // a night's work and a day to fetch it
        task_poll_interval: Duration::from_secs(1), // what a person notices
        task_poll_floor: Duration::from_millis(50),
        config_poll_interval: Duration::from_millis(500), // an editor has written a file by then
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

const MIB: usize = 1 << 20;

// Relations that the code relies on.
const _: () = {
    let l = Limits::DEFAULT;
    assert!(l.outbox_bytes >= 2 * l.frame_bytes, "a large reply must not block the next");
    assert!(l.inlet_bytes >= l.body_bytes, "what is taken from a request fits");
    assert!(l.shelf_session_bytes >= l.frame_bytes, "the largest reply can be resumed");
    assert!(l.shelf_session_bytes <= l.shelf_bytes, "one session is one of all");
    assert!(l.event_bytes >= l.frame_bytes, "an event carries a whole frame");
    assert!(l.socket_message_bytes >= l.socket_frame_bytes, "a message is made of frames");
    assert!(l.stray_header_bytes < l.head_bytes, "they are a part of the head");
    assert!(l.depth <= 128, "serde_json stops at 128, raw and typed must agree");
    assert!(l.call_idle_timeout.as_secs() <= l.call_total_timeout.as_secs(), "idle is within total");
    assert!(
        l.keep_alive_interval.as_secs() * 2 < l.read_idle_timeout.as_secs(),
        "one lost keep-alive is no loss"
    );
    assert!(
        l.session_idle_timeout.as_secs() < l.session_unread_timeout.as_secs(),
        "who left a call behind has more reason to come back"
    );
    assert!(l.eof_grace.as_millis() < l.child_eof_grace.as_millis(), "we leave before we are told to");
    assert!(l.task_ttl.as_secs() <= l.task_ttl_max.as_secs(), "what we choose is what we allow");
    assert!(l.tasks_per_principal <= l.tasks, "one principal is one of all");
    assert!(l.task_poll_floor.as_millis() <= l.task_poll_interval.as_millis(), "we keep our own floor");
    assert!(
        l.connect_timeout.as_secs() < l.stall_timeout.as_secs(),
        "a dial that takes long is no peer that does not read"
    );
    assert!(l.reconnect_wait_min.as_secs() <= l.reconnect_wait_max.as_secs(), "waits grow");
    assert!(
        l.resumed_silence.as_secs() < l.call_idle_timeout.as_secs() / 4,
        "there is time to ask more than once"
    );
    assert!(l.probe_timeout.as_secs() <= l.open_timeout.as_secs(), "the probe is part of opening");
};
