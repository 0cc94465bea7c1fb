//! A command whose decision takes long is told in the log (core §2, "CEL and schema cost").

use std::io::Write;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::TestApp;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// The fields of every alarm so far.
    fn alarms(&self) -> Vec<Value> {
        let text = String::from_utf8(self.0.lock().expect("no panic").clone()).expect("text");
        let lines = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let fields = lines.map(|line| line["fields"].clone());
        fields
            .filter(|fields| fields["message"] == "deciding a command took long")
            .collect()
    }
}

/// An exclusive node with conditions that are each about half as costly as an expression may be.
fn process() -> String {
    let costly = "items.all(a, items.all(b, b >= 0))";
    // So many that a fast machine is slow as well.
    let rules: String = (0..200)
        .map(|number| format!("        - {{ if: \"!({costly}) || amount == {number}\", then: done }}\n"))
        .collect();
    format!(
        "metadata:
  key: slow
  variables:
    amount: {{ type: number }}
    items: {{ type: list }}
flow:
  nodes:
    - {{ id: payout, type: engine-task, service: payments.payout }}
    - id: choose
      type: exclusive
      rules:
{rules}        - {{ else: done }}
    - {{ id: done, type: end }}
"
    )
}

#[tokio::test]
async fn the_alarm_of_a_slow_decision_names_process_and_node() {
    let log = Log::default();
    let lines = tracing_subscriber::fmt().json().with_writer({
        let log = log.clone();
        move || log.clone()
    });
    // The engine of a runtime of one thread works in this thread too.
    let _guard = tracing::subscriber::set_default(lines.finish());
    let app = TestApp::new().await;
    app.deploy(&[("slow.process.yaml", &process())]).await;
    let items: Vec<u32> = (0..120).collect();
    let variables = json!({ "amount": -1, "items": items });
    app.start("slow", variables).await;
    let lease = app.fetch("payer", "payments.payout").await.expect("the task");
    app.work("payer", &lease, "complete", json!({ "variables": {} }))
        .await
        .ok();
    // On a busy machine others may be slow as well.
    let alarms = log.alarms();
    let alarm = alarms.iter().find(|alarm| alarm["node"] == "payout");
    let alarm = alarm.unwrap_or_else(|| panic!("none of the completion: {alarms:?}"));
    assert_eq!(alarm["process"], "slow");
    assert_eq!(alarm["through"], "slow/payout slow/choose slow/done");
    assert!(alarm["ms"].as_u64().is_some_and(|ms| ms > 50), "{alarm}");
}
