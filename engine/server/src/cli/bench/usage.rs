//! What processes cost, from /proc: CPU time and memory. On systems without it, nothing is known and nothing is shown.

use std::path::Path;

use serde::Serialize;

/// Clock ticks a second of /proc, a constant of Linux's interface.
const TICKS: f64 = 100.0;

/// CPU time of some processes between two moments, and the memory that they needed.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// CPU seconds a second: 1.0 is one core.
    pub cpu_cores: f64,
    /// Resident memory at the end, MB. What several processes share counts once.
    pub memory_mb: f64,
    /// The most that it was so far, MB; of several processes what it is at the end.
    pub memory_peak_mb: f64,
}

/// CPU seconds that a process has used so far.
pub fn cpu_seconds(pid: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |place: usize| fields.get(place)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS)
}

/// Resident memory of a process now and at most, MB.
pub fn memory_mb(pid: u32) -> Option<(f64, f64)> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kilobytes = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse::<f64>().ok()
    };
    Some((kilobytes("VmRSS:")? / 1024.0, kilobytes("VmHWM:")? / 1024.0))
}

/// Resident memory of a process, with its share of what it shares with others, MB.
fn share_mb(pid: u32) -> Option<f64> {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find(|line| line.starts_with("Pss:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? / 1024.0)
}

/// The processes of a PostgreSQL server on this machine that serve a database: its backends name it.
pub fn postgres_backends(database: &str) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let is_backend = |path: &Path| {
        std::fs::read(path.join("cmdline")).is_ok_and(|line| {
            let line = String::from_utf8_lossy(&line);
            line.starts_with("postgres: ") && line.split(' ').any(|word| word == database)
        })
    };
    entries
        .flatten()
        .filter(|entry| is_backend(&entry.path()))
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// A measurement of some processes that runs.
pub struct Meter {
    pids: Vec<u32>,
    cpu: f64,
    started: std::time::Instant,
}

impl Meter {
    pub fn start(pids: Vec<u32>) -> Self {
        let cpu = pids.iter().filter_map(|pid| cpu_seconds(*pid)).sum();
        Self {
            pids,
            cpu,
            started: std::time::Instant::now(),
        }
    }

    /// None when nothing is known of them.
    pub fn stop(&self) -> Option<Usage> {
        let seconds = self.started.elapsed().as_secs_f64();
        let cpu: Vec<f64> = self.pids.iter().filter_map(|pid| cpu_seconds(*pid)).collect();
        if cpu.is_empty() {
            return None;
        }
        let (memory_mb, memory_peak_mb) = match self.pids.as_slice() {
            [one] => memory_mb(*one)?,
            many => {
                let sum = many.iter().filter_map(|pid| share_mb(*pid)).sum();
                (sum, sum)
            }
        };
        Some(Usage {
            cpu_cores: (cpu.iter().sum::<f64>() - self.cpu).max(0.0) / seconds,
            memory_mb,
            memory_peak_mb,
        })
    }
}
