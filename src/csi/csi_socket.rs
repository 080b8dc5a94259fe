//! A driver's csi.sock on disk: whether it exists, and whether its path can be trusted.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

use super::error::DriverError;
use super::trust::{Exposure, foreign_socket};
use crate::config::SUN_PATH_MAX;
use crate::disk::directory::{self, is_missing};
use crate::disk::identity::Identity;

/// The path of a driver's socket.
#[derive(Clone, Debug)]
pub(crate) struct CsiSocket {
    pub(crate) path: PathBuf,
    /// Discovery found this socket; the configuration does not name it. Every user who can write to
    /// its directories could pose as the driver.
    pub(crate) discovered: bool,
}

impl CsiSocket {
    /// The socket that exists now.
    pub(crate) fn look(&self) -> Result<Identity, DriverError> {
        if self.discovered {
            self.check()?;
        }
        let socket = self.path.clone();
        match fs::metadata(&socket) {
            Ok(found) if found.file_type().is_socket() => Ok(Identity::from_parts(&found, None)),
            Ok(_) => Err(DriverError::NoSocket(socket)),
            Err(error) if is_missing(&error) => Err(self.absent()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let directory = directory::closed(&socket).to_owned();
                Err(DriverError::Hidden {
                    owner: directory::owner_and_mode(&directory),
                    directory,
                    socket,
                })
            }
            Err(source) => Err(DriverError::Unseen { socket, source }),
        }
    }

    /// The checks that the configuration makes for a socket that it names.
    fn check(&self) -> Result<(), DriverError> {
        let length = self.path.as_os_str().len();
        if length > SUN_PATH_MAX {
            let socket = self.path.clone();
            return Err(DriverError::LongPath { socket, length });
        }
        match Exposure::of(&self.path) {
            Ok(Some(exposure)) => Err(DriverError::Exposed {
                exposure,
                foreign: foreign_socket(&self.path).map(Box::new),
            }),
            // After an error here the socket cannot be accessed either, and that error says why.
            Ok(None) | Err(_) => Ok(()),
        }
    }

    fn absent(&self) -> DriverError {
        let socket = self.path.clone();
        let directories = self.path.ancestors().skip(1);
        // The topmost directory that is missing.
        match directories.take_while(|path| !path.exists()).last() {
            Some(missing) => DriverError::NoDirectory {
                socket,
                missing: missing.to_owned(),
            },
            None => DriverError::Absent(socket),
        }
    }
}
