//! `dist`: what is given to others, in one archive: the program, its manual pages and its completions.

mod trained;

use std::{
    env::consts::{ARCH, OS},
    fs::{self, File},
    path::Path,
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::{
    args::Args,
    run::{say, succeed},
    walk,
};

/// A completion script: the shell, and the file's name where that shell looks for it.
const SHELLS: [(&str, &str); 3] = [("bash", "cardan"), ("zsh", "_cardan"), ("fish", "cardan.fish")];

/// What stands beside the program.
const BESIDE: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

pub(crate) use trained::program;

pub(crate) fn run(args: Args) -> Result<()> {
    args.finish()?;
    let root = walk::root();
    let program = program(&root)?;
    let name = format!("cardan-{}-{ARCH}-{OS}", env!("CARGO_PKG_VERSION"));
    let package = root.join("target/package");
    let folder = package.join(&name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fill(&root, &program, &folder)?;
    let archive = format!("{name}.tar.gz");
    succeed(Command::new("tar").current_dir(&package).args(["-czf", &archive, &name]))?;
    say(&format!("target/package/{archive}"));
    Ok(())
}

/// Puts everything where it belongs.
fn fill(root: &Path, program: &Path, folder: &Path) -> Result<()> {
    let completions = folder.join("completions");
    fs::create_dir_all(&completions)?;
    fs::copy(program, folder.join("cardan")).context("the program was not built")?;
    for file in BESIDE {
        fs::copy(root.join(file), folder.join(file)).with_context(|| format!("no {file} to take along"))?;
    }
    succeed(Command::new(program).arg("manual").arg(folder.join("man/man1")))?;
    for (shell, file) in SHELLS {
        fs::create_dir_all(completions.join(shell))?;
        let script = File::create(completions.join(shell).join(file))?;
        succeed(Command::new(program).args(["completions", shell]).stdout(script))?;
    }
    Ok(())
}
