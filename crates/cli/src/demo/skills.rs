//! A skill: instructions for a model, with a file that it may want to read.

use cardan_server::Skill;
use cardan_server::builder::Builder;

const BODY: &str = "# Trying a server\n\nCall `echo` with a message and compare what comes back. Call `slow` to see \
progress, `job` to see a task. What the tools expect is told in `references/tools.md`.\n";

const TOOLS: &str =
    "# Tools\n\n- `echo`: `message`, a text.\n- `slow` and `job`: `steps` and `delay_ms`, numbers.\n";

pub(super) fn add_to(builder: Builder) -> Builder {
    builder.skill(
        Skill::new("try-a-server", "Tries the demo server. Use it to see whether a client works.", BODY)
            .field("license", "MIT OR Apache-2.0")
            .file("references/tools.md", "text/markdown", TOOLS),
    )
}
