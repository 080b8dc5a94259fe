//! The machine that was measured on.

use std::fs;
use std::thread;

pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) memory_gb: f64,
    pub(crate) kernel: String,
    /// One-minute load average at the beginning: the load of other processes.
    pub(crate) load: String,
}

impl Machine {
    pub(crate) fn here() -> Machine {
        Machine {
            processor: field("/proc/cpuinfo", "model name")
                .unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: thread::available_parallelism().map_or(1, usize::from),
            memory_gb: field("/proc/meminfo", "MemTotal")
                .and_then(|text| text.strip_suffix(" kB")?.parse::<f64>().ok())
                .map_or(0.0, |kb| kb / 1024.0 / 1024.0),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load: first_word(&read("/proc/loadavg")),
        }
    }

    pub(crate) fn words(&self) -> String {
        format!(
            "{} cores of {}, {:.0} GB, Linux {}; load average at the start {}",
            self.cores, self.processor, self.memory_gb, self.kernel, self.load
        )
    }
}

/// What a file of /proc says; nothing where there is none.
fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn field(path: &str, key: &str) -> Option<String> {
    read(path).lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_owned())
    })
}

fn first_word(text: &str) -> String {
    text.split_whitespace()
        .next()
        .unwrap_or_default()
        .to_owned()
}
