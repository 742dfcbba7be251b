//! Two sessions and the link between them, every choice made by the fuzzer: the rules of the simulator hold.

#![no_main]

use cardan_sim::{Tracing, run_script};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|script: &[u8]| {
    let report = run_script(script, Tracing::Off);
    if let Some(failure) = report.failure {
        for line in run_script(script, Tracing::On).trace {
            eprintln!("{line}");
        }
        panic!("{failure}");
    }
});
