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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Everything is where packagers and shells look for it, whatever the program prints.
    #[test]
    fn a_package_has_all_its_parts_in_their_places() {
        let root = walk::root();
        let scratch = std::env::temp_dir().join(format!("xtask-dist-{}", std::process::id()));
        let _ = fs::remove_dir_all(&scratch);
        fs::create_dir_all(&scratch).unwrap();
        let program = scratch.join("program");
        let script = "#!/bin/sh\ncase $1 in\nmanual) mkdir -p \"$2\" && echo page > \"$2/cardan.1\" ;;\n\
                      completions) echo \"for $2\" ;;\n*) exit 1 ;;\nesac\n";
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let folder = scratch.join("package");
        fill(&root, &program, &folder).unwrap();
        let text =
            |path: &str| fs::read_to_string(folder.join(path)).unwrap_or_else(|why| panic!("{path}: {why}"));
        for file in BESIDE {
            assert_eq!(text(file), fs::read_to_string(root.join(file)).unwrap(), "{file}");
        }
        assert_eq!(text("cardan"), script);
        assert_eq!(fs::metadata(folder.join("cardan")).unwrap().permissions().mode() & 0o111, 0o111);
        assert_eq!(text("man/man1/cardan.1"), "page\n");
        for (shell, path) in [("bash", "bash/cardan"), ("zsh", "zsh/_cardan"), ("fish", "fish/cardan.fish")] {
            assert_eq!(text(&format!("completions/{path}")), format!("for {shell}\n"));
        }
        assert!(
            fill(&root, &scratch.join("absent"), &scratch.join("none")).is_err(),
            "no program, no package"
        );
        fs::remove_dir_all(&scratch).unwrap();
    }
}
