//! vol_data.json: the kubelet's file about one volume.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use serde::Deserialize;
use thiserror::Error;

use crate::disk::name::{DriverName, NameError};

/// The name of the file.
pub(super) const VOL_DATA: &str = "vol_data.json";
/// The kubelet writes some 300 bytes.
pub(super) const LARGEST: usize = 64 * 1024;

/// A volume that the kubelet has set up.
#[derive(Debug)]
pub(super) struct VolData {
    pub(super) driver: DriverName,
    pub(super) handle: String,
}

/// Why the file does not tell which volume it is about.
#[derive(Debug, Error)]
pub(super) enum VolDataError {
    #[error(transparent)]
    Read(#[from] io::Error),
    #[error("it is not a regular file")]
    NotAFile,
    #[error("it has more than {LARGEST} bytes")]
    TooLarge,
    /// The kubelet writes the file in place, so this may be the file before its end is written.
    #[error("it is empty or cut off")]
    Cut,
    #[error("it is not what a kubelet writes: {0}")]
    Malformed(serde_json::Error),
    #[error("its driverName cannot be used: {0}")]
    BadName(#[from] NameError),
    #[error("it has no volumeHandle")]
    NoHandle(DriverName),
}

/// The keys that are needed, of those that the kubelet writes.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Keys {
    driver_name: String,
    #[serde(default)]
    volume_handle: String,
}

impl VolDataError {
    /// The driver that the file names all the same.
    pub(super) fn driver(&self) -> Option<&DriverName> {
        match self {
            VolDataError::NoHandle(driver) => Some(driver),
            VolDataError::Read(_)
            | VolDataError::NotAFile
            | VolDataError::TooLarge
            | VolDataError::Cut
            | VolDataError::Malformed(_)
            | VolDataError::BadName(_) => None,
        }
    }
}

impl VolData {
    pub(super) fn parse(text: &[u8]) -> Result<VolData, VolDataError> {
        let keys: Keys = serde_json::from_slice(text).map_err(|error| match error.is_eof() {
            true => VolDataError::Cut,
            false => VolDataError::Malformed(error),
        })?;
        let driver = DriverName::parse(&keys.driver_name)?;
        match keys.volume_handle.is_empty() {
            true => Err(VolDataError::NoHandle(driver)),
            false => Ok(VolData {
                driver,
                handle: keys.volume_handle,
            }),
        }
    }
}

/// The bytes of the open file: at most [`LARGEST`], and none of a pipe or a device.
pub(super) fn text(file: OwnedFd) -> Result<Vec<u8>, VolDataError> {
    let file = File::from(file);
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(VolDataError::NotAFile);
    }
    // Room for all of it, and for the end: two reads.
    let length = usize::try_from(found.len()).unwrap_or(LARGEST);
    let mut text = Vec::with_capacity(length.min(LARGEST) + 1);
    file.take(LARGEST as u64 + 1).read_to_end(&mut text)?;
    match text.len() > LARGEST {
        true => Err(VolDataError::TooLarge),
        false => Ok(text),
    }
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_kubelets_write() {
        let text = r#"{"attachmentID":"csi-1","driverName":"nfs.csi.k8s.io","nodeName":"node-1",
            "seLinuxMountContext":"","specVolID":"pv-1","volumeHandle":"a#b","volumeLifecycleMode":"Persistent"}"#;
        let data = VolData::parse(text.as_bytes()).unwrap();
        assert_eq!(data.driver.as_str(), "nfs.csi.k8s.io");
        assert_eq!(data.handle, "a#b");
    }

    #[test]
    fn a_file_that_the_kubelet_still_writes_is_told_from_another_file() {
        let whole = br#"{"driverName":"a.csi","volumeHandle":"h"}"#;
        for cut in 0..whole.len() {
            let cut = VolData::parse(&whole[..cut]);
            assert!(matches!(cut, Err(VolDataError::Cut)), "{cut:?}");
        }
        for (text, words) in [
            ("null", "not what a kubelet writes"),
            (r#"{"volumeHandle":"h"}"#, "missing field `driverName`"),
            (r#"{"driverName":7}"#, "invalid type"),
            (r#"{"driverName":"","volumeHandle":"h"}"#, "name is empty"),
            (
                "{\"driverName\":\"../\\u001b[2J\",\"volumeHandle\":\"h\"}",
                "\"../\\u{1b}[2J\"",
            ),
        ] {
            let error = VolData::parse(text.as_bytes()).unwrap_err();
            assert_eq!(error.driver(), None);
            assert!(error.to_string().contains(words), "{text}: {error}");
        }
        let nameless = VolData::parse(br#"{"driverName":"a.csi"}"#).unwrap_err();
        assert_eq!(nameless.driver().unwrap().as_str(), "a.csi");
    }
}
