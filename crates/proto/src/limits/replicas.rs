//! Bounds of replicas that share sessions: how long who owns what, and how long anybody waits for the store.

use std::time::Duration;

/// How long a replica owns its sessions without a word from the store. Longer: the store may be away for longer; shorter:
/// the sessions of a replica that died are taken over sooner.
pub const LEASE: Duration = Duration::from_secs(15);

/// A shorter lease would not outlast a store that is slow once.
pub const MIN_LEASE: Duration = Duration::from_secs(2);

/// A longer one would keep sessions of the dead from their clients for too long.
pub const MAX_LEASE: Duration = Duration::from_secs(300);

/// One call of the store, connecting included.
pub const STORE_CALL: Duration = Duration::from_millis(500);

/// Connections to the store at a time. Whoever comes later waits, within the time of a call.
pub const STORE_CONNECTIONS: usize = 8;

/// After a failure nobody asks the store for so long: all are told at once that it is away.
pub const STORE_PAUSE: Duration = Duration::from_millis(500);

/// One value that the store answers with. Larger ones are none of ours.
pub const VALUE_BYTES: usize = 1 << 20;

/// What is written down of one session. One that needs more cannot be shared, and is refused.
pub const RECORD_BYTES: usize = 256 << 10;

/// Resources whose changes a session wants to hear of, as far as they are written down.
pub const SUBSCRIPTIONS: usize = 1024;

/// Their addresses together. One more is not written down, and is to be asked for again when the session changes hands.
pub const SUBSCRIPTION_BYTES: usize = 64 << 10;

/// What a record may grow by after its session has begun: the subscriptions, a log level, another address.
pub const RECORD_GROWTH: usize = SUBSCRIPTION_BYTES + (8 << 10);

/// Sessions that have ended and are remembered as such by who ended them.
pub const ENDED: usize = 32_768;

/// How long the word of a replica that forwards is good. Clocks of replicas may differ by as much.
pub const PASS_AGE: Duration = Duration::from_secs(60);

/// Passes that are remembered as shown, for as long as they could be shown again. More: the oldest are forgotten early.
pub const PASSES: usize = 1 << 18;

/// How long a look at the store is believed about who owns a session of others.
pub const OWNER_AGE: Duration = Duration::from_secs(2);

/// Owners of others' sessions that are remembered.
pub const OWNERS: usize = 16_384;

/// Names that no session has and that are remembered for as long, so that who repeats one does not ask the store each time.
pub const UNKNOWN: usize = 16_384;

/// Pause before the store is asked again for an owner that cannot be reached.
pub const LOOK_PAUSE: Duration = Duration::from_millis(200);

/// Making a connection to another replica.
pub const CONNECT: Duration = Duration::from_secs(2);

/// How often a request whose connection breaks off is brought again over another: as many may rest at a time, and all are closed
/// when their replica leaves.
pub const CARRY_AGAIN: usize = 64;

/// How long a replica that leaves still answers those whose request it closed a connection to. A round trip is shorter.
pub const LINGER: Duration = Duration::from_millis(250);

/// A renewal of the lease that failed is tried again after so long.
pub const BEAT_RETRY: Duration = Duration::from_millis(600);

/// Whoever waits for the owner of a session waits for the end of its lease and so much longer: taking over takes a moment.
pub const OWNER_SLACK: Duration = Duration::from_secs(1);

/// Ways to other replicas that are remembered. There are never as many, but for a store full of addresses of the past.
pub const WAYS: usize = 256;

const _: () = assert!(STORE_CALL.as_millis() * 3 < MIN_LEASE.as_millis(), "a lease outlasts a slow call");
