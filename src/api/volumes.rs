//! The volumes in use, as the status shows them.

use crate::disk::name::DriverName;
use crate::grpc::proto::control::{Driver, Status};
use crate::kubelet::volumes::{NodeVolumes, VolumeUse};

/// Puts the volumes of each driver into the status. A driver that has not told its name has none yet that
/// could be looked for.
pub(crate) fn show(status: &mut Status, volumes: &NodeVolumes) {
    for driver in &mut status.drivers {
        let name = driver.name.as_deref().map(DriverName::parse);
        let Some(Ok(name)) = name else { continue };
        let found = volumes.of(&name);
        driver.volumes = found.count();
        match found {
            VolumeUse::Free => {}
            VolumeUse::InUse { pods, .. } => driver.pods = pods,
            VolumeUse::NotKnown(why) => driver.volumes_unknown = Some(why),
        }
    }
}

/// The volumes of a driver as its status has them; none if they were not asked for, or if the daemon does
/// not know the driver's name.
pub(crate) fn of(driver: &Driver) -> Option<VolumeUse> {
    let unknown = driver.volumes_unknown.clone().map(VolumeUse::NotKnown);
    unknown.or_else(|| match usize::try_from(driver.volumes?) {
        Ok(0) => Some(VolumeUse::Free),
        Ok(volumes) => Some(VolumeUse::InUse {
            volumes,
            pods: driver.pods.clone(),
        }),
        Err(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: Option<&str>) -> Driver {
        Driver {
            name: name.map(str::to_owned),
            ..Driver::default()
        }
    }

    #[test]
    fn what_is_not_known_is_shown_as_that_and_not_as_none() {
        let mut status = Status {
            drivers: vec![named(Some("a.csi")), named(None)],
            ..Status::default()
        };
        show(&mut status, &NodeVolumes::default());
        assert_eq!(status.drivers[0].volumes, Some(0));
        assert_eq!(of(&status.drivers[0]), Some(VolumeUse::Free));
        assert_eq!(status.drivers[1], named(None));
        assert_eq!(of(&status.drivers[1]), None);
        show(&mut status, &NodeVolumes::not_known("so".to_owned()));
        assert_eq!(status.drivers[0].volumes, None);
        let not_known = VolumeUse::NotKnown("so".to_owned());
        assert_eq!(of(&status.drivers[0]), Some(not_known));
        assert_eq!(status.drivers[1], named(None));
    }

    #[test]
    fn a_client_reads_what_the_daemon_has_shown() {
        let driver = Driver {
            volumes: Some(2),
            pods: vec!["uid".to_owned()],
            ..Driver::default()
        };
        let words = of(&driver).and_then(|found| found.words());
        assert_eq!(words.as_deref(), Some("2 volumes are in use by pod uid"));
    }
}
