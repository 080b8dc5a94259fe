//! The status in Prometheus' text format 0.0.4.
//!
//! The supervisor keeps the counts, and a scrape puts them into a registry of its own: a driver that
//! is no longer configured is gone from the next scrape, with nothing to clean up.

use std::time::UNIX_EPOCH;

use prometheus::{
    Error, Registry, register_gauge_with_registry, register_int_counter_vec_with_registry,
    register_int_gauge_vec_with_registry,
};

use crate::driver::phase::Phase;
use crate::grpc::proto::control::{Driver, Status};

pub(crate) const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;

/// A count of a driver: its name, its help, and where it is in the status.
type Count = (&'static str, &'static str, fn(&Driver) -> u64);

const COUNTS: [Count; 5] = [
    (
        "nsdr_driver_registrations_total",
        "How often the kubelet said that it has registered the driver",
        |driver| driver.registrations,
    ),
    (
        "nsdr_driver_rejections_total",
        "How often the kubelet said that it has not registered the driver",
        |driver| driver.rejections,
    ),
    (
        "nsdr_driver_announcements_total",
        "How often the link was created, so that the kubelet looks at the driver",
        |driver| driver.announcements,
    ),
    (
        "nsdr_driver_link_repairs_total",
        "How often the link was restored after another process removed or changed it",
        |driver| driver.link_repairs,
    ),
    (
        "nsdr_driver_disconnects_total",
        "How often the driver stopped answering, or restarted",
        |driver| driver.disconnects,
    ),
];

/// A number of a driver that may not be known: its name, its help, and where it is in the status.
type Gauge = (&'static str, &'static str, fn(&Driver) -> Option<i64>);

const GAUGES: [Gauge; 5] = [
    (
        "nsdr_driver_volume_limit",
        "The volume limit that the driver reports; 0 for none",
        |driver| driver.volume_limit,
    ),
    (
        "nsdr_driver_registered_volume_limit",
        "The volume limit that the driver was registered with; 0 for none",
        |driver| driver.registered_volume_limit,
    ),
    (
        "nsdr_driver_up",
        "Whether the driver answers on its socket",
        |driver| Some(driver.answering.into()),
    ),
    (
        "nsdr_driver_in_cluster",
        "Whether the cluster has the driver, as verify last found it; absent if that is not known",
        |driver| driver.in_cluster.map(i64::from),
    ),
    (
        "nsdr_driver_volumes",
        "How many volumes of the driver are in use on the node; absent if that is not known",
        |driver| {
            driver
                .volumes
                .and_then(|volumes| i64::try_from(volumes).ok())
        },
    ),
];

/// A number of the daemon that may not be known: its name, its help, and where it is in the status.
type DaemonGauge = (&'static str, &'static str, fn(&Status) -> Option<f64>);

const DAEMON_GAUGES: [DaemonGauge; 6] = [
    (
        "nsdr_config_last_reload_successful",
        "Whether the daemon accepted the configuration when it last read it",
        |status| Some(u8::from(!status.config_refused).into()),
    ),
    (
        "nsdr_config_last_reload_success_timestamp_seconds",
        "When the daemon last accepted a configuration, in seconds since 1970",
        |status| Some(status.config_accepted),
    ),
    (
        "nsdr_directories_without_socket",
        "How many directories of plugins_dir have no csi.sock, so that no driver was found there",
        |status| Some(status.directories_without_socket.into()),
    ),
    (
        "nsdr_drivers",
        "How many drivers are configured or discovered",
        |status| Some(count(status.drivers.len())),
    ),
    (
        "nsdr_problems",
        "How many notes of the status an operator has to act on",
        |status| Some(count(status.problems.len())),
    ),
    (
        "nsdr_cluster_checked_timestamp_seconds",
        "When verify last compared the drivers with the cluster, in seconds since 1970; absent if never",
        |status| status.cluster_checked,
    ),
];

/// The metrics that follow from a status.
pub(super) fn of_status(status: &Status) -> Result<Registry, Error> {
    let registry = Registry::new();
    for (name, help, count) in COUNTS {
        let counter = register_int_counter_vec_with_registry!(name, help, &["driver"], registry)?;
        for driver in &status.drivers {
            let counter = counter.with_label_values(&[&driver.id]);
            counter.inc_by(count(driver));
        }
    }
    for (name, help, value) in GAUGES {
        let gauge = register_int_gauge_vec_with_registry!(name, help, &["driver"], registry)?;
        for driver in &status.drivers {
            if let Some(value) = value(driver) {
                gauge.with_label_values(&[&driver.id]).set(value);
            }
        }
    }
    let phase = register_int_gauge_vec_with_registry!(
        "nsdr_driver_phase",
        "The phase of the driver: 1 for the one that it is in, 0 for the others",
        &["driver", "phase"],
        registry
    )?;
    for driver in &status.drivers {
        for name in Phase::ALL.map(Phase::as_str) {
            let gauge = phase.with_label_values(&[driver.id.as_str(), name]);
            gauge.set((driver.phase == name).into());
        }
    }
    for (name, help, value) in DAEMON_GAUGES {
        if let Some(value) = value(status) {
            register_gauge_with_registry!(name, help, registry)?.set(value);
        }
    }
    let build = register_int_gauge_vec_with_registry!(
        "nsdr_build_info",
        "The version of the daemon; always 1",
        &["version"],
        registry
    )?;
    build.with_label_values(&[&status.version]).set(1);
    if let Some(started) = process_start() {
        let help = "When the process started, in seconds since 1970";
        register_gauge_with_registry!("process_start_time_seconds", help, registry)?.set(started);
    }
    Ok(registry)
}

fn count(number: usize) -> f64 {
    u32::try_from(number).unwrap_or(u32::MAX).into()
}

/// Boot time and the process' start in ticks after it, from /proc. Linux counts 100 ticks a second
/// for user space on every architecture that we build for.
fn process_start() -> Option<f64> {
    const TICKS: f64 = 100.0;
    let started = crate::os::process::Process::of(std::process::id())?.started;
    let boot = crate::os::boot::time()?.duration_since(UNIX_EPOCH).ok()?;
    #[expect(clippy::cast_precision_loss, reason = "2^53 ticks are a million years")]
    Some(boot.as_secs_f64() + started as f64 / TICKS)
}

#[cfg(test)]
mod tests {
    use super::super::Metrics;
    use super::*;
    use crate::csi::query::CsiCall;
    use std::time::Duration;
    use tonic::Code;

    fn status() -> Status {
        let driver = Driver {
            id: "nfs \"quoted\"\\\n".to_owned(),
            phase: "registered".to_owned(),
            registrations: 3,
            answering: true,
            volume_limit: Some(5),
            registered_volume_limit: Some(8),
            volumes: Some(2),
            in_cluster: Some(false),
            ..Driver::default()
        };
        Status {
            version: "1.2.3".to_owned(),
            drivers: vec![driver],
            cluster_checked: Some(1_800_000_000.5),
            ..Status::default()
        }
    }

    #[test]
    fn every_metric_has_help_and_type_and_the_promised_name() {
        let metrics = Metrics::new();
        metrics.registering.ended("nfs", Duration::from_millis(700));
        let call = CsiCall {
            method: "NodeGetInfo",
            took: Duration::from_millis(3),
            code: Code::Ok,
        };
        metrics.operations.count(Some("nfs.csi.k8s.io"), call);
        let text = metrics.exposition(&status()).unwrap();
        let promised = [
            ("nsdr_driver_phase", "gauge"),
            ("nsdr_driver_up", "gauge"),
            ("nsdr_driver_registrations_total", "counter"),
            ("nsdr_driver_rejections_total", "counter"),
            ("nsdr_driver_announcements_total", "counter"),
            ("nsdr_driver_link_repairs_total", "counter"),
            ("nsdr_driver_disconnects_total", "counter"),
            ("nsdr_config_last_reload_successful", "gauge"),
            ("nsdr_config_last_reload_success_timestamp_seconds", "gauge"),
            ("nsdr_directories_without_socket", "gauge"),
            ("nsdr_drivers", "gauge"),
            ("nsdr_problems", "gauge"),
            ("nsdr_driver_volume_limit", "gauge"),
            ("nsdr_driver_registered_volume_limit", "gauge"),
            ("nsdr_driver_volumes", "gauge"),
            ("nsdr_driver_in_cluster", "gauge"),
            ("nsdr_cluster_checked_timestamp_seconds", "gauge"),
            ("nsdr_driver_time_to_register_seconds", "histogram"),
            ("csi_sidecar_operations_seconds", "histogram"),
            ("nsdr_build_info", "gauge"),
            ("process_start_time_seconds", "gauge"),
        ];
        assert_eq!(text.matches("# TYPE ").count(), promised.len(), "{text}");
        for (name, kind) in promised {
            assert!(text.contains(&format!("# TYPE {name} {kind}\n")), "{text}");
            assert!(text.contains(&format!("# HELP {name} ")), "{text}");
        }
        for line in [
            r#"nsdr_driver_registrations_total{driver="nfs \"quoted\"\\\n"} 3"#,
            r#"nsdr_driver_phase{driver="nfs \"quoted\"\\\n",phase="registered"} 1"#,
            r#"nsdr_driver_phase{driver="nfs \"quoted\"\\\n",phase="conflict"} 0"#,
            r#"nsdr_driver_in_cluster{driver="nfs \"quoted\"\\\n"} 0"#,
            "nsdr_cluster_checked_timestamp_seconds 1800000000.5",
            r#"csi_sidecar_operations_seconds_count{driver_name="nfs.csi.k8s.io",grpc_status_code="OK",method_name="/csi.v1.Node/NodeGetInfo"} 1"#,
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }

    #[test]
    fn a_daemon_without_drivers_has_metrics_all_the_same() {
        let text = Metrics::new().exposition(&Status::default()).unwrap();
        assert!(text.contains("nsdr_build_info"), "{text}");
        assert!(!text.contains("nsdr_driver_up"), "{text}");
        assert!(!text.contains("nsdr_cluster_checked"), "{text}");
    }
}
