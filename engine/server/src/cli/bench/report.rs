//! What is printed: a table for people, the same as JSON for programs.

use serde::Serialize;

use super::calibrate::Calibration;
use super::times::Times;
use super::usage::Usage;
use super::{Arguments, Scenario};
use crate::cli::print;

/// One scenario's result.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Measured {
    pub scenario: Scenario,
    /// Instances (A, A1, B), steps (C, C10) or delegations (D) a second.
    pub per_second: f64,
    pub finished: u64,
    /// A, A1: start request to finished instance. B: the start. C, C10: a step. D: a delegation. All in ms.
    pub times: Times,
    /// None for an engine that was not started here.
    pub engine: Option<Usage>,
    pub engine_idle_mb: Option<f64>,
    /// PostgreSQL's processes for this database; None when it is SQLite, or on another machine.
    pub database: Option<Usage>,
    /// Of load and workers together.
    pub load_cpu_cores: f64,
    /// Start of the binary to its first answer, with a new database, ms.
    pub start_ms: Option<f64>,
}

/// Everything that was measured in one run.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// `sqlite`, `postgres`, or the address of the engine that was measured.
    pub database: String,
    pub version: &'static str,
    pub cores: usize,
    pub seconds: f64,
    pub clients: usize,
    pub workers: usize,
    pub sync_delay_ms: Option<u32>,
    pub calibration: Option<Calibration>,
    pub scenarios: Vec<Measured>,
}

impl Report {
    pub fn new(
        database: String,
        arguments: &Arguments,
        calibration: Option<Calibration>,
        scenarios: Vec<Measured>,
    ) -> Self {
        Self {
            database,
            version: env!("CARGO_PKG_VERSION"),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            seconds: arguments.seconds,
            clients: arguments.clients,
            workers: arguments.workers,
            sync_delay_ms: arguments.sync_delay_ms,
            calibration,
            scenarios,
        }
    }

    pub fn print(&self) {
        println!(
            "legation {} on {}, {} cores shared by engine, database, workers and load",
            self.version, self.database, self.cores
        );
        if let Some(calibration) = &self.calibration {
            println!("durability  {}", calibration.durability);
            let delay = self
                .sync_delay_ms
                .map_or_else(String::new, |ms| format!(", and {ms} ms added to every commit"));
            println!(
                "one sync    p50 {} ms, p99 {} ms{delay}",
                ms(calibration.sync.p50),
                ms(calibration.sync.p99)
            );
            println!(
                "database    the same rows without an engine: {}/s singly, {}/s in tens, {}/s in fifties",
                count(calibration.lives_singly),
                count(calibration.lives_in_tens),
                count(calibration.lives_in_fifties)
            );
        }
        println!();
        let header = [
            "",
            "per second",
            "p50 ms",
            "p90 ms",
            "p99 ms",
            "engine cpu",
            "engine MB",
            "database cpu",
            "database MB",
            "load cpu",
            "what",
        ];
        println!(
            "{}",
            print::render(&header, self.scenarios.iter().map(row).collect())
        );
        println!();
        println!(
            "cpu is in cores. Other load on this machine shows in every figure: compare within one run."
        );
    }
}

fn row(measured: &Measured) -> Vec<String> {
    let cpu = |usage: Option<Usage>| {
        usage.map_or_else(|| "-".to_owned(), |usage| format!("{:.2}", usage.cpu_cores))
    };
    let memory = |usage: Option<Usage>| {
        usage.map_or_else(|| "-".to_owned(), |usage| format!("{:.0}", usage.memory_peak_mb))
    };
    vec![
        format!("{:?}", measured.scenario),
        count(measured.per_second),
        ms(measured.times.p50),
        ms(measured.times.p90),
        ms(measured.times.p99),
        cpu(measured.engine),
        memory(measured.engine),
        cpu(measured.database),
        memory(measured.database),
        format!("{:.2}", measured.load_cpu_cores),
        words(measured.scenario).to_owned(),
    ]
}

/// The scenario in words.
pub fn words(scenario: Scenario) -> &'static str {
    match scenario {
        Scenario::A => "instances: start, one task leased and completed, end",
        Scenario::A1 => "the same one at a time, start request to end",
        Scenario::B => "instances of an empty process",
        Scenario::C => "journal steps in a row, one agent",
        Scenario::C10 => "journal steps, ten agents",
        Scenario::D => "delegations: STARTED to the parent's next lease",
        Scenario::All => "everything",
    }
}

/// 12,345
fn count(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn ms(ms: f64) -> String {
    format!("{ms:.2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_grouped() {
        assert_eq!(count(999.4), "999");
        assert_eq!(count(1_000.0), "1,000");
        assert_eq!(count(1_234_567.0), "1,234,567");
    }
}
