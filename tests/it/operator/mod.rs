//! Everything that an operator runs or reads.

mod check;
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
mod volumes;
