//! csi.sock as it is on disk: whether it is there, and whether whoever listens on it can be trusted.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::error::DriverError;
use super::trust::{self, Exposure};
use crate::disk::directory::{self, is_missing};
use crate::disk::identity::Identity;
use crate::disk::socket::SUN_PATH_MAX;

/// The place of a driver's socket.
#[derive(Clone, Debug)]
pub(crate) struct CsiSocket {
    pub(crate) path: PathBuf,
    /// Nobody named this socket: whoever may write to its directory could be the driver.
    pub(crate) found: bool,
}

impl CsiSocket {
    /// What is there now.
    pub(crate) fn look(&self) -> Result<Identity, DriverError> {
        if self.found {
            self.is_acceptable()?;
        }
        match fs::metadata(&self.path) {
            Ok(metadata) if is_socket(&metadata) => Ok(Identity::from_parts(&metadata, None)),
            Ok(_) => Err(DriverError::NoSocket(self.path.clone())),
            Err(error) if is_missing(&error) => Err(self.absent()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let directory = directory::closed(&self.path);
                Err(DriverError::Hidden {
                    socket: self.path.clone(),
                    directory: directory.to_owned(),
                    owner: directory::owner_and_mode(directory),
                })
            }
            Err(source) => Err(DriverError::Unseen {
                socket: self.path.clone(),
                source,
            }),
        }
    }

    /// What the configuration checks for a socket that is named in it.
    fn is_acceptable(&self) -> Result<(), DriverError> {
        let length = self.path.as_os_str().len();
        if length > SUN_PATH_MAX {
            return Err(DriverError::LongPath {
                socket: self.path.clone(),
                length,
            });
        }
        match Exposure::of(&self.path) {
            Ok(None) => Ok(()),
            Ok(Some(exposure)) => Err(DriverError::Exposed {
                exposure,
                strangers: trust::strangers(&self.path).map(Box::new),
            }),
            // Then the socket itself cannot be looked at, and that says why.
            Err(_) => Ok(()),
        }
    }

    fn absent(&self) -> DriverError {
        match self.first_missing() {
            Some(missing) => DriverError::NoDirectory {
                socket: self.path.clone(),
                missing,
            },
            None => DriverError::Absent(self.path.clone()),
        }
    }

    /// The topmost directory on the way that is not there.
    fn first_missing(&self) -> Option<PathBuf> {
        let mut missing = None;
        for directory in self
            .path
            .ancestors()
            .skip(1)
            .take_while(|path| *path != Path::new("/"))
        {
            if directory.exists() {
                break;
            }
            missing = Some(directory.to_owned());
        }
        missing
    }
}

fn is_socket(metadata: &Metadata) -> bool {
    metadata.file_type().is_socket()
}
