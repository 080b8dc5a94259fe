//! A driver's csi.sock on disk: whether it exists, and whether its path can be trusted.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use super::error::DriverError;
use super::trust::{Exposure, foreign_socket};
use crate::disk::directory::{self, is_missing};
use crate::disk::identity::Identity;
use crate::disk::socket::SUN_PATH_MAX;

/// The socket that exists now. The configuration does not name a socket that was `discovered`, so
/// every user who can write to its directories could pose as the driver.
pub(super) fn look(path: &Path, discovered: bool) -> Result<Identity, DriverError> {
    if discovered {
        check(path)?;
    }
    let socket = path.to_owned();
    match fs::metadata(path) {
        Ok(found) if found.file_type().is_socket() => Ok(Identity::from_parts(&found, None)),
        Ok(_) => Err(DriverError::NoSocket(socket)),
        Err(error) if is_missing(&error) => Err(absent(path)),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let directory = directory::closed(path).to_owned();
            Err(DriverError::Hidden {
                owner: directory::owner_and_mode(&directory),
                directory,
                socket,
            })
        }
        Err(source) => Err(DriverError::Unseen(socket, source)),
    }
}

/// The checks that the configuration makes for a socket that it names.
fn check(path: &Path) -> Result<(), DriverError> {
    let length = path.as_os_str().len();
    if length > SUN_PATH_MAX {
        return Err(DriverError::LongPath(path.to_owned(), length));
    }
    match Exposure::of(path) {
        Ok(Some(exposure)) => Err(DriverError::Exposed {
            exposure,
            foreign: foreign_socket(path).map(Box::new),
        }),
        // After an error here the socket cannot be accessed either, and that error says why.
        Ok(None) | Err(_) => Ok(()),
    }
}

fn absent(path: &Path) -> DriverError {
    let socket = path.to_owned();
    match directory::missing(directory::of(path)) {
        Some(missing) => DriverError::NoDirectory {
            socket,
            missing: missing.to_owned(),
        },
        None => DriverError::Absent(socket),
    }
}
