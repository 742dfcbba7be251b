//! What is done in the store, each in one step that nobody comes between.
//!
//! A lease is a key that expires: `PREFIX:replica:TAG`, with the mark of the last beat. A session is a hash that expires:
//! `PREFIX:session:NAME`, with `owner` (a tag), `fence`, `turn` (of its owner's writes) and `record` (sealed; it repeats
//! the first two, so that they cannot be changed alone).

/// Renews a lease; gives the mark that was there. KEYS: lease. ARGV: mark, term in ms.
pub(crate) const BEAT: &str = "\
local before = false
if redis.call('TYPE', KEYS[1])['ok'] == 'string' then before = redis.call('GET', KEYS[1]) end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return before";

/// Gives a lease up. KEYS: lease.
pub(crate) const RELEASE: &str = "return redis.call('DEL', KEYS[1])";

/// A new session. KEYS: session, own lease. ARGV: owner, fence, record, life in ms. 1: done; 0: there is one; -1: no lease.
pub(crate) const OPEN: &str = "\
if redis.call('EXISTS', KEYS[2]) == 0 then return -1 end
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'fence', ARGV[2], 'record', ARGV[3], 'turn', '0')
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1";

/// A session, and how long its owner's lease lasts. KEYS: session. ARGV: what leases begin with, the longest value. Nothing:
/// there is none; 0: what is there is no session of ours.
pub(crate) const LOOK: &str = "\
local kind = redis.call('TYPE', KEYS[1])['ok']
if kind == 'none' then return false end
if kind ~= 'hash' then return 0 end
local said = redis.call('HMGET', KEYS[1], 'owner', 'fence', 'record')
for at = 1, 3 do
  if not said[at] or #said[at] > tonumber(ARGV[2]) then return 0 end
end
return {said[1], said[2], said[3], redis.call('PTTL', ARGV[1] .. said[1])}";

/// Takes a session over that is as it was seen, from an owner whose lease is over. KEYS: session, own lease. ARGV: what leases
/// begin with, record as seen, owner, fence, record, life in ms. 1: done; 0: it is another by now; -1: no lease.
pub(crate) const TAKE: &str = "\
if redis.call('EXISTS', KEYS[2]) == 0 then return -1 end
if redis.call('TYPE', KEYS[1])['ok'] ~= 'hash' then return 0 end
local said = redis.call('HMGET', KEYS[1], 'owner', 'record')
if said[2] ~= ARGV[2] then return 0 end
if said[1] ~= ARGV[3] and redis.call('EXISTS', ARGV[1] .. said[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'owner', ARGV[3], 'fence', ARGV[4], 'record', ARGV[5], 'turn', '0')
redis.call('PEXPIRE', KEYS[1], ARGV[6])
return 1";

/// Writes a session's record, or an empty one: that it lives on. KEYS: session. ARGV: owner, fence, record, life in ms, turn.
/// What is older than what is there came late, and is not written. 1: done; 0: it is not that owner's any more.
pub(crate) const WRITE: &str = "\
if redis.call('TYPE', KEYS[1])['ok'] ~= 'hash' then return 0 end
local said = redis.call('HMGET', KEYS[1], 'owner', 'fence', 'turn')
if said[1] ~= ARGV[1] or said[2] ~= ARGV[2] then return 0 end
if ARGV[3] ~= '' and tonumber(ARGV[5]) > (tonumber(said[3] or '0') or 0) then
  redis.call('HSET', KEYS[1], 'record', ARGV[3], 'turn', ARGV[5])
end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1";

/// Ends a session. KEYS: session. ARGV: owner, fence. 1: done; 0: it is not that owner's any more.
pub(crate) const DROP: &str = "\
if redis.call('TYPE', KEYS[1])['ok'] ~= 'hash' then return 0 end
local said = redis.call('HMGET', KEYS[1], 'owner', 'fence')
if said[1] ~= ARGV[1] or said[2] ~= ARGV[2] then return 0 end
return redis.call('DEL', KEYS[1])";
