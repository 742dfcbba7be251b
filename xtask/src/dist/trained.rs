//! The program, laid out by what it does: built once to watch itself, put to work, and built again with what was seen.
//!
//! A call runs through code from all over the program. Where the hot parts stand side by side, far fewer pages and lines of
//! the processor's cache are touched, which is most of what a lone call waits for. `llvm-profdata` must be of the
//! compiler's own LLVM; where there is none, the program is built plainly, and that is said.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::UNIX_EPOCH,
};

use anyhow::{Context as _, Result};

use crate::{
    peers::debian,
    run::{cargo, say, succeed, works},
};

/// The program and how it was built.
const BUILD: [&str; 6] = ["build", "--profile", "dist", "--locked", "-p", "cardan-cli"];

/// Hot and cold code in places of their own.
const APART: &str = "-Clink-arg=-Wl,-z,keep-text-section-prefix";

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
    let watched = build(root, &place.join("watched"), &compiler, &[&watching])?;
    let profile = train(root, &place, &raw, &watched, &merge)?;
    let using = format!("-Cprofile-use={}", profile.display());
    build(root, &place.join("done"), &compiler, &[&using, APART])
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
fn train(root: &Path, place: &Path, raw: &Path, watched: &Path, merge: &Merge) -> Result<PathBuf> {
    let built = fs::metadata(watched)?.modified()?.duration_since(UNIX_EPOCH)?;
    // Named after the program: another one is another flag for the next build, which notices only those.
    let profile = place.join(format!("{}.profdata", built.as_millis()));
    if profile.is_file() {
        return Ok(profile);
    }
    if raw.exists() {
        fs::remove_dir_all(raw)?;
    }
    succeed(cargo(root).args(["run", "--release", "-p", "cardan-bench", "--", "train"]).arg(watched))?;
    merge.run(raw, &profile)?;
    Ok(profile)
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
}
