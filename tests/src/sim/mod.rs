//! The simulation: real kernel, journal, writer and store, with simulated time, chance, workers, people and network.
//! One seed decides everything. Each seed runs twice, once without accidents and once with many, and both must end
//! the same; what must hold always is in `check`.

mod agent;
mod calls;
mod check;
mod end;
mod engine;
mod faults;
mod ledger;
mod look;
mod people;
mod run;
mod said;
mod stale;
#[cfg(test)]
mod tests;
mod worker;
mod world;

use std::collections::BTreeMap;

use legation_store::Dialect;

pub use run::Report;
use run::Run;

/// Runs a seed: an error says what is wrong, and how to see it again.
///
/// # Errors
/// What does not hold.
pub fn simulate(seed: u64, dialect: Dialect) -> Result<Report, String> {
    let again = |wrong: String| {
        let name = match dialect {
            Dialect::Sqlite => "sqlite",
            Dialect::Postgres => "postgres",
        };
        format!("{wrong}\n\nagain with: SEED={seed} cargo test -p legation-tests --test simulation {name}")
    };
    let calm = Run::new(seed, dialect, false)
        .run_on()
        .map_err(|wrong| again(format!("without accidents: {wrong}")))?;
    let rough = Run::new(seed, dialect, true).run_on().map_err(again)?;
    compare(&calm, &rough).map_err(again)?;
    Ok(rough)
}

/// The end equals that of the run without accidents.
fn compare(calm: &Report, rough: &Report) -> Result<(), String> {
    let keys = |report: &Report| report.ends.keys().cloned().collect::<Vec<_>>();
    if keys(calm) != keys(rough) {
        return Err(format!(
            "started {:?}, without accidents {:?}",
            keys(rough),
            keys(calm)
        ));
    }
    let differ = |(key, end): (&String, &String)| {
        let other = &rough.ends[key];
        (end != other).then(|| format!("{key} ended\n  {other}\nwithout accidents\n  {end}"))
    };
    let compared: BTreeMap<_, _> = calm
        .ends
        .iter()
        .filter(|(key, _)| !calm.open.contains(*key))
        .collect();
    let wrong: Vec<String> = compared.into_iter().filter_map(differ).collect();
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("\n"))
    }
}
