//! Sockets and links on disk: where they stand, who else wants the place, what is repaired and removed.

mod forbidden;
mod leftovers;
mod nested;
mod one_directory;
mod owners;
mod places;
mod racing;
mod repair;
mod rivals;
