//! Typing that is not shown.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

/// A terminal that shows nothing of what is typed but the end of the line. It is as it was once this is dropped,
/// whatever ends it: an answer, Ctrl-C or a panic.
#[derive(Debug)]
pub(super) struct Hidden {
    terminal: OwnedFd,
    before: Termios,
}

impl Hidden {
    pub(super) fn on(terminal: impl AsFd) -> io::Result<Self> {
        let terminal = io::dup(terminal)?;
        let hidden = Self { before: tcgetattr(&terminal)?, terminal };
        hidden.again()?;
        Ok(hidden)
    }

    /// Hides once more: a shell that we were stopped in may have changed the terminal.
    pub(super) fn again(&self) -> io::Result<()> {
        let mut modes = self.before.clone();
        modes.local_modes.remove(LocalModes::ECHO);
        modes.local_modes.insert(LocalModes::ECHONL | LocalModes::ICANON | LocalModes::ISIG);
        // The key that ends us without any farewell would leave the terminal mute.
        modes.special_codes[SpecialCodeIndex::VQUIT] = DISABLED;
        tcsetattr(&self.terminal, OptionalActions::Now, &modes)
    }
}

/// No key: `_POSIX_VDISABLE`.
const DISABLED: u8 = if cfg!(target_os = "linux") { 0 } else { 0xff };

impl Drop for Hidden {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    use super::*;

    #[test]
    fn a_panic_leaves_the_terminal_as_it_was() {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let path = Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
        let terminal = File::options().read(true).write(true).open(path).unwrap();
        let before = tcgetattr(&terminal).unwrap();
        let panicked = std::panic::catch_unwind(|| {
            let _hidden = Hidden::on(&terminal).unwrap();
            let modes = tcgetattr(&terminal).unwrap();
            assert!(!modes.local_modes.contains(LocalModes::ECHO), "{modes:?}");
            panic!("on purpose");
        });
        assert!(panicked.is_err_and(|panic| panic.downcast_ref() == Some(&"on purpose")));
        let after = tcgetattr(&terminal).unwrap();
        assert_eq!(after.local_modes, before.local_modes);
        assert_eq!(
            after.special_codes[SpecialCodeIndex::VQUIT],
            before.special_codes[SpecialCodeIndex::VQUIT]
        );
    }
}
