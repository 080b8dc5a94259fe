//! The file systems of registry_dir and of the kubelet's directory: they have room for a socket and a link.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::{FsFlags, Statvfs, statvfs};
use nix::unistd::geteuid;

use super::{Finding, Inputs};
use crate::api::status::unready_drivers;
use crate::disk::mount_table::MountEntry;
use crate::os::text::quoted_path;

const CHECK: &str = "file system";
/// Fewer bytes or inodes are soon used up.
const FEW_BYTES: u64 = 64 << 10;
const FEW_INODES: u64 = 16;

/// The part of a file system that is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shortage {
    Bytes,
    Inodes,
}

/// How much room a file system has.
#[derive(Clone, Copy, Debug)]
struct Room {
    bytes: [u64; 2],
    /// Both are 0 on a file system that makes inodes as it needs them, such as btrfs.
    inodes: [u64; 2],
}

pub(super) fn check(inputs: &Inputs) -> Vec<Finding> {
    let settings = &inputs.settings;
    let directories = [
        ("registry_dir", &settings.registry_dir),
        ("kubelet.registry_dir", &settings.kubelet.registry_dir),
    ];
    let mut short: Vec<(MountEntry, Room, Vec<String>)> = Vec::new();
    for (key, path) in directories {
        if inputs.reach.may_hang(path) {
            continue;
        }
        let Some((mount, room)) = file_system_of(path) else {
            continue;
        };
        let shown = format!("{key} ({})", path.display());
        match short.iter_mut().find(|(known, ..)| *known == mount) {
            Some((.., keys)) => keys.push(shown),
            None => short.push((mount, room, vec![shown])),
        }
    }
    // Files that exist still work. The next socket or link would fail.
    let all_ready = inputs
        .daemon
        .as_ref()
        .is_ok_and(|status| unready_drivers(status).is_empty());
    let findings = short
        .into_iter()
        .filter_map(|(mount, room, keys)| finding(&mount, room, &keys.join(" and "), all_ready));
    findings.collect()
}

/// The file system of a directory, or of the part of its path that exists.
fn file_system_of(path: &Path) -> Option<(MountEntry, Room)> {
    let existing = path.ancestors().find(|path| path.exists())?;
    let existing: PathBuf = fs::canonicalize(existing).ok()?;
    let found = statvfs(&existing).ok()?;
    // An image such as squashfs is always full. The check of the directories reports it.
    if found.flags().contains(FsFlags::ST_RDONLY) {
        return None;
    }
    Some((MountEntry::of(&existing)?, Room::of(&found)))
}

fn finding(mount: &MountEntry, room: Room, keys: &str, all_ready: bool) -> Option<Finding> {
    let shortage = room.shortage()?;
    let (point, quoted) = (mount.point.display(), quoted_path(&mount.point));
    let MountEntry { kind, source, .. } = mount;
    let ([bytes, all_bytes], [inodes, all_inodes]) = (room.bytes.map(size), room.inodes);
    let (left, fix) = match shortage {
        Shortage::Bytes => (
            format!("{bytes} of {all_bytes} left"),
            format!(
                "remove files, or enlarge it; to find the largest: du -xh {quoted} | sort -h | tail"
            ),
        ),
        Shortage::Inodes => (
            format!(
                "{inodes} of {all_inodes} inodes left, although {bytes} of {all_bytes} are free"
            ),
            format!("remove files; to find the most: du -x --inodes {quoted} | sort -n | tail"),
        ),
    };
    let is_full = room.is_full();
    let state = if is_full { "is full" } else { "is almost full" };
    let found =
        format!("the file system of {keys} {state}: {left} ({kind} {source}, mounted at {point})");
    let level = if is_full && !all_ready {
        Finding::fault
    } else {
        Finding::warning
    };
    Some(level(CHECK, found, fix))
}

impl Room {
    /// ext4 and others keep blocks that root alone may use.
    fn of(found: &Statvfs) -> Room {
        let unit = found.fragment_size();
        let (blocks, inodes) = if geteuid().is_root() {
            (found.blocks_free(), found.files_free())
        } else {
            (found.blocks_available(), found.files_available())
        };
        Room {
            bytes: [blocks, found.blocks()].map(|blocks| blocks.saturating_mul(unit)),
            inodes: [inodes, found.files()],
        }
    }

    fn shortage(self) -> Option<Shortage> {
        let ([bytes, all_bytes], [inodes, all_inodes]) = (self.bytes, self.inodes);
        if all_inodes > 0 && inodes < FEW_INODES {
            return Some(Shortage::Inodes);
        }
        // A virtual file system has no blocks at all.
        (all_bytes > 0 && bytes < FEW_BYTES).then_some(Shortage::Bytes)
    }

    fn is_full(self) -> bool {
        let is_used_up = |[left, all]: [u64; 2]| all > 0 && left == 0;
        is_used_up(self.bytes) || is_used_up(self.inodes)
    }
}

fn size(bytes: u64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let power = (0..units.len())
        .rev()
        .find(|power| bytes >> (10 * power) > 0);
    let power = power.unwrap_or_default();
    format!("{} {}", bytes >> (10 * power), units[power])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount() -> MountEntry {
        let line = "9 1 8:1 / /vdata rw - ext4 /dev/sdb1 rw";
        MountEntry::parse(line.as_bytes()).unwrap()
    }

    fn found(bytes: [u64; 2], inodes: [u64; 2]) -> Option<String> {
        let finding = finding(
            &mount(),
            Room { bytes, inodes },
            "registry_dir (/vdata/r)",
            false,
        );
        finding.map(|finding| format!("{:?}: {}", finding.level, finding.found))
    }

    #[test]
    fn says_which_file_system_is_full_of_bytes_or_of_inodes() {
        assert_eq!(
            found([0, 5 << 30], [70, 100]).unwrap(),
            "Fault: the file system of registry_dir (/vdata/r) is full: 0 bytes of 5 GiB left (ext4 /dev/sdb1, mounted at /vdata)"
        );
        assert_eq!(
            found([3 << 20, 5 << 30], [0, 100]).unwrap(),
            "Fault: the file system of registry_dir (/vdata/r) is full: 0 of 100 inodes left, although 3 MiB of 5 GiB are free (ext4 /dev/sdb1, mounted at /vdata)"
        );
        let few = found([5 << 10, 5 << 30], [70, 100]).unwrap();
        assert!(few.starts_with("Warning: "), "{few}");
        assert!(few.contains("is almost full: 5 KiB of 5 GiB left"), "{few}");
    }

    #[test]
    fn a_file_system_with_room_or_without_numbers_is_no_finding() {
        assert_eq!(found([1 << 20, 5 << 30], [70, 100]), None);
        assert_eq!(found([1 << 20, 5 << 30], [0, 0]), None);
        assert_eq!(found([0, 0], [0, 0]), None);
    }
}
