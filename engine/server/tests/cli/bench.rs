//! `legation bench` measures an engine of its own and says everything that a comparison needs.

use serde_json::Value;

use crate::support::{ok, refused};

#[test]
fn bench_measures_instances_and_says_what_they_cost() {
    let folder = tempfile::tempdir().unwrap();
    let printed = ok(
        folder.path(),
        &[
            "bench",
            "A",
            "A1",
            "--seconds",
            "1",
            "--clients",
            "5",
            "--workers",
            "1",
            "--json",
        ],
    );
    let report: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(report["database"], "sqlite");
    assert!(report["cores"].as_u64().unwrap() > 0);
    let calibration = &report["calibration"];
    assert_eq!(calibration["durability"], "journal_mode=wal, synchronous=FULL");
    for number in ["livesSingly", "livesInTens", "livesInFifties"] {
        assert!(calibration[number].as_f64().unwrap() > 0.0, "{number}");
    }
    assert!(calibration["sync"]["p50"].as_f64().is_some());
    let scenarios = report["scenarios"].as_array().unwrap();
    let names: Vec<&Value> = scenarios.iter().map(|one| &one["scenario"]).collect();
    assert_eq!(names, ["A", "A1"]);
    for one in scenarios {
        assert!(one["finished"].as_u64().unwrap() > 0, "{one}");
        assert!(one["perSecond"].as_f64().unwrap() > 0.0, "{one}");
        let times = &one["times"];
        let [p50, p90, p99] = ["p50", "p90", "p99"].map(|name| times[name].as_f64().unwrap());
        assert!(0.0 < p50 && p50 <= p90 && p90 <= p99, "{times}");
        assert!(one["engine"]["memoryMb"].as_f64().unwrap() > 1.0, "{one}");
        assert!(one["engine"]["cpuCores"].as_f64().unwrap() > 0.0, "{one}");
    }
}

#[test]
fn bench_does_not_load_an_engine_that_nobody_gave_a_key_for() {
    let folder = tempfile::tempdir().unwrap();
    let (code, said) = refused(folder.path(), &["bench", "A", "--key-file", "x.key"]);
    assert_eq!(code, 2);
    assert!(said.contains("--url"), "{said}");
}
