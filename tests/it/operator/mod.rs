//! What an operator sees and does.

mod browser;
mod by_hand;
mod commands;
mod doctor;
mod fleet;
mod healthz;
mod http;
mod inspect;
mod journal;
mod logs;
mod metrics;
mod status;
mod taken_away;
mod terminal;
