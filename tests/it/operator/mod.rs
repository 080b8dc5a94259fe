//! Everything that an operator runs or reads.

mod check;
mod cluster_report;
mod commands;
mod completions;
mod deleted_sockets;
mod doctor;
mod driver_faults;
mod gate;
mod healthz;
mod http;
mod inspect;
mod journal;
mod landing_page;
mod logs;
mod manual_actions;
mod metrics;
mod monitoring;
mod readiness;
mod status;
mod terminal;
#[cfg(feature = "cluster")]
mod verify;
#[cfg(not(feature = "cluster"))]
mod verify {
    #[test]
    fn the_program_verify_is_tested_with_its_feature() {
        bed::skipped("the cargo feature cluster");
    }
}
mod volumes;
