//! The program, laid out by what it does: built once to watch itself, put to work, and built again with what was seen.
//!
//! A call runs through code from all over the program. Where the hot parts stand side by side, far fewer pages and lines of
//! the processor's cache are touched, which is most of what a lone call waits for. First of all stands what a command runs that
//! finds its server warm, since there is little else to wait for. `llvm-profdata` must be of the compiler's own LLVM; where
//! there is none, the program is built plainly, and that is said.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::UNIX_EPOCH,
};

use anyhow::{Context as _, Result, ensure};

use crate::{
    peers::debian,
    run::{cargo, say, succeed, works},
};

/// The program and how it was built.
const BUILD: [&str; 6] = ["build", "--profile", "dist", "--locked", "-p", "cardan-cli"];

/// Hot and cold code in places of their own.
const APART: &str = "-Clink-arg=-Wl,-z,keep-text-section-prefix";

/// Where everything stands is settled while linking. Else a pointer in each of a hundred pages is put right at every start, and each of
/// those pages copied for it: a fifth of what a warm call takes.
const FIXED: &str = "-Crelocation-model=static";

/// Functions that are named and not there have become parts of others.
const INLINED: &str = "-Clink-arg=-Wl,--no-warn-symbol-ordering";

/// Builds the program as it is given to others.
pub(crate) fn program(root: &Path) -> Result<PathBuf> {
    let compiler = Compiler::ask()?;
    let Some(merge) = Merge::find(root, &compiler) else {
        say("no llvm-profdata for this compiler, so the program is built without having been put to work");
        succeed(cargo(root).args(BUILD))?;
        return Ok(root.join("target/dist/cardan"));
    };
    let place = root.join("target/trained");
    // All processes add to one file there.
    let raw = place.join("raw");
    let watching = format!("-Cprofile-generate={}", raw.display());
    let watched = build(root, &place.join("watched"), &compiler, &[FIXED, &watching])?;
    let Learned { profile, first } = train(root, &place, &raw, &watched, &merge)?;
    let using = format!("-Cprofile-use={}", profile.display());
    let first = format!("-Clink-arg=-Wl,--symbol-ordering-file={}", first.display());
    build(root, &place.join("done"), &compiler, &[FIXED, &using, APART, &first, INLINED])
}

/// What the program at work has shown.
struct Learned {
    profile: PathBuf,
    /// Functions that stand before all others, by name.
    first: PathBuf,
}

fn build(root: &Path, target: &Path, compiler: &Compiler, flags: &[&str]) -> Result<PathBuf> {
    let mut build = cargo(root);
    // For a named machine, flags do not concern what runs while building. Nothing else may differ between the two builds: the
    // names of functions hang on it, by which the second knows what the first saw.
    build.args(BUILD).args(["--target", &compiler.host]);
    succeed(build.env("CARGO_TARGET_DIR", target).env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}")))?;
    Ok(target.join(&compiler.host).join("dist/cardan"))
}

/// Puts the program to work, unless that was done: what was seen.
fn train(root: &Path, place: &Path, raw: &Path, watched: &Path, merge: &Merge) -> Result<Learned> {
    let built = fs::metadata(watched)?.modified()?.duration_since(UNIX_EPOCH)?.as_millis();
    // Named after the program: another one is another flag for the next build, which notices only those.
    let named = |kind: &str| place.join(format!("{built}.{kind}"));
    let learned = Learned { profile: named("profdata"), first: named("first") };
    if learned.profile.is_file() && learned.first.is_file() {
        return Ok(learned);
    }
    let alone = place.join("alone");
    for earlier in [raw, &alone] {
        if earlier.exists() {
            fs::remove_dir_all(earlier)?;
        }
    }
    let train = ["run", "--release", "-p", "cardan-bench", "--", "train"];
    succeed(cargo(root).args(train).arg(watched).arg(alone.join("warm.profraw")))?;
    merge.run(raw, &learned.profile)?;
    let warm = alone.join("warm.profdata");
    merge.run(&alone, &warm)?;
    fs::write(&learned.first, ran(&merge.counts(&warm)?).join("\n"))?;
    Ok(learned)
}

/// The functions that ran, of all whose counts are told. Those of one unit have its name before theirs.
fn ran(counts: &str) -> Vec<&str> {
    let (mut ran, mut function) = (Vec::new(), None);
    for line in counts.lines() {
        if let Some(counts) = line.strip_prefix("    Block counts: [") {
            let is_zero = |count: &str| count.trim_matches([' ', ']']) == "0";
            ran.extend(function.take().filter(|_| !counts.split(',').all(is_zero)));
        } else if let Some(name) = line.strip_prefix("  ").and_then(|line| line.strip_suffix(':')) {
            function = name.rsplit(';').next();
        }
    }
    ran
}

/// What builds us.
struct Compiler {
    host: String,
    /// The first number of its LLVM.
    llvm: String,
    sysroot: PathBuf,
}

impl Compiler {
    fn ask() -> Result<Self> {
        let said = |word: &[&str]| -> Result<String> {
            let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
            let output = Command::new(rustc).args(word).output().context("cannot run rustc")?;
            Ok(String::from_utf8(output.stdout)?)
        };
        let (verbose, sysroot) = (said(&["-vV"])?, said(&["--print", "sysroot"])?);
        let (host, llvm) = versions(&verbose).context("rustc does not say what it builds for")?;
        Ok(Self { host, llvm, sysroot: PathBuf::from(sysroot.trim()) })
    }
}

/// The machine that a compiler builds for, and its LLVM.
fn versions(verbose: &str) -> Option<(String, String)> {
    let line = |name: &str| verbose.lines().find_map(|line| line.strip_prefix(name));
    let llvm = line("LLVM version: ")?.split('.').next()?;
    Some((line("host: ")?.to_owned(), llvm.to_owned()))
}

/// `llvm-profdata`, and where its libraries are.
struct Merge {
    program: PathBuf,
    libraries: PathBuf,
}

impl Merge {
    /// The compiler's own, the machine's, or Debian's.
    fn find(root: &Path, compiler: &Compiler) -> Option<Self> {
        let Compiler { host, llvm, sysroot } = compiler;
        let unpacked = root.join("target/trained/llvm");
        let libraries = unpacked.join(format!("usr/lib/{}-linux-gnu", env::consts::ARCH));
        let inside = format!("usr/lib/llvm-{llvm}/bin/llvm-profdata");
        let places = [
            sysroot.join("lib/rustlib").join(host).join("bin/llvm-profdata"),
            PathBuf::from(format!("llvm-profdata-{llvm}")),
            Path::new("/").join(&inside),
            unpacked.join(&inside),
        ];
        let there = || {
            let all =
                places.iter().map(|program| Self { program: program.clone(), libraries: libraries.clone() });
            all.into_iter().find(|merge| works(merge.command().arg("--version")))
        };
        there().or_else(|| {
            say(&format!("unpacking llvm-profdata of LLVM {llvm} from the Debian packages"));
            let packages = [format!("llvm-{llvm}"), format!("libllvm{llvm}"), "libz3-4".to_owned()];
            fs::create_dir_all(&unpacked).ok()?;
            debian::unpack(&unpacked, &packages.each_ref().map(String::as_str)).ok()?;
            there()
        })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env("LD_LIBRARY_PATH", &self.libraries);
        command
    }

    fn run(&self, raw: &Path, profile: &Path) -> Result<()> {
        succeed(self.command().args(["merge", "-o"]).arg(profile).arg(raw))
    }

    /// How often each part of each function ran.
    fn counts(&self, profile: &Path) -> Result<String> {
        let mut show = self.command();
        let output = show.args(["show", "--all-functions", "--counts"]).arg(profile).output();
        let output = output.context("cannot run llvm-profdata")?;
        ensure!(output.status.success(), "llvm-profdata cannot read {}", profile.display());
        Ok(String::from_utf8(output.stdout)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_says_what_it_is() {
        let said = "rustc 1.95.0\nhost: x86_64-unknown-linux-gnu\nrelease: 1.95.0\nLLVM version: 22.1.2\n";
        assert_eq!(versions(said), Some(("x86_64-unknown-linux-gnu".to_owned(), "22".to_owned())));
        assert_eq!(versions("rustc 1.95.0\n"), None);
    }

    #[test]
    fn functions_that_ran_are_named() {
        let counts = "Counters:\n  _ZN3ranE:\n    Hash: 0x01\n    Counters: 2\n    Block counts: [0, 7]\n  \
                      unit.0-cgu.0;_ZN5innerE:\n    Hash: 0x02\n    Counters: 1\n    Block counts: [1]\n  \
                      _ZN4idleE:\n    Hash: 0x03\n    Counters: 2\n    Block counts: [0, 0]\nTotal functions: 3\n";
        assert_eq!(ran(counts), ["_ZN3ranE", "_ZN5innerE"]);
    }
}
