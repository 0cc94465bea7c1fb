//! `legation run --record FILE`: writes down what the models of a run answered, as a script that the model `scripted`
//! plays (agent-worker/README.md). JSON is YAML, so that each rule is one line of it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use legation_protocol::instances::{InstanceJournal, TaskJournal};
use legation_protocol::lineage::{Lineage, LineageNode};
use legation_protocol::step_bodies::{ModelCall, ModelRequest, ModelResult};
use legation_protocol::{Json, StepKind, StepState};
use serde::{Deserialize, Serialize};

use super::client::{Client, encode};
use crate::plural;

/// A rule of a script, as the agent worker reads it.
#[derive(Serialize)]
struct Rule {
    #[serde(rename = "match")]
    condition: Condition,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    calls: Vec<Call>,
}

#[derive(Serialize)]
struct Condition {
    turn: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<String>,
}

#[derive(Serialize)]
struct Call {
    tool: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments_text: Option<String>,
}

/// The first message of a conversation, in the agent worker's form.
#[derive(Deserialize)]
struct User {
    text: String,
}

/// Writes the script of an instance and of everything below it.
///
/// # Errors
/// When the engine refuses, no model answered, or the file cannot be written.
pub async fn write(client: &Client, id: &str, file: &Path) -> anyhow::Result<()> {
    let path = format!("/v1/instances/{}/lineage", encode(id));
    let lineage = client.get::<Lineage>(&path).await?.body;
    let mut ids = Vec::new();
    below(&lineage.instance, &mut ids);
    let mut script = String::new();
    for id in ids {
        let path = format!("/v1/instances/{}/journal", encode(&id));
        let journal = client.get::<InstanceJournal>(&path).await?.body;
        for task in &journal.tasks {
            script.push_str(&rules(task)?);
        }
    }
    let count = script.lines().count();
    anyhow::ensure!(count > 0, "there is nothing to record: no model answered in {id}");
    let head = format!(
        "# What the models of {id} answered. The model `scripted` says it again; no model is asked.\n"
    );
    std::fs::write(file, head + &script).with_context(|| format!("{} cannot be written", file.display()))?;
    tell!(
        "recorded {} in {}",
        plural::count(count, "answer"),
        file.display()
    );
    Ok(())
}

fn below(node: &LineageNode, ids: &mut Vec<String>) {
    ids.push(node.id.clone());
    for child in &node.children {
        below(child, ids);
    }
}

/// The turns of a task's newest attempt. The earlier ones were other conversations, which led to nothing.
fn rules(task: &TaskJournal) -> anyhow::Result<String> {
    let attempt = task.task.attempt;
    let turns = task
        .steps
        .iter()
        .filter(|step| step.kind == StepKind::Model && step.attempt.unwrap_or(attempt) == attempt);
    let (mut prompt, mut script, mut turn) = (None, String::new(), 0);
    for step in turns {
        if prompt.is_none() {
            prompt = step.request.as_ref().and_then(first_message);
        }
        let (StepState::Completed, Some(result)) = (step.state, &step.result) else {
            continue;
        };
        turn += 1;
        let said: ModelResult = serde_json::from_str(result.get()).context("a turn is not understood")?;
        let condition = Condition {
            turn,
            prompt: prompt.as_deref().map(pattern),
        };
        script.push_str(&format!(
            "- {}\n",
            serde_json::to_string(&rule(condition, said)?)?
        ));
    }
    Ok(script)
}

fn first_message(request: &Json) -> Option<String> {
    let request: ModelRequest = serde_json::from_str(request.get()).ok()?;
    let first: User = serde_json::from_str(request.added.first()?.get()).ok()?;
    Some(first.text)
}

fn rule(condition: Condition, said: ModelResult) -> anyhow::Result<Rule> {
    let text = said.text.filter(|text| !text.is_empty() || said.calls.is_empty());
    let calls = said
        .calls
        .into_iter()
        .map(call)
        .collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Rule {
        condition,
        text: match (text, calls.is_empty()) {
            (Some(text), _) => Some(literal(&text)),
            (None, true) => Some(String::new()),
            (None, false) => None,
        },
        calls,
    })
}

/// Arguments that are no object were no JSON: the script says them as they were.
fn call(call: ModelCall) -> anyhow::Result<Call> {
    let is_object = serde_json::from_str::<BTreeMap<String, Json>>(call.arguments.get()).is_ok();
    let (arguments, arguments_text) = if is_object {
        (Some(serde_json::from_str(&literal(call.arguments.get()))?), None)
    } else {
        let text = serde_json::from_str::<String>(call.arguments.get());
        (
            None,
            Some(text.unwrap_or_else(|_| call.arguments.get().to_owned())),
        )
    };
    Ok(Call {
        tool: call.tool,
        arguments,
        arguments_text,
    })
}

/// Texts of a script are templates; in JSON the sign stands in strings only.
fn literal(text: &str) -> String {
    text.replace("${", "$${")
}

/// A regular expression that fits exactly this text.
fn pattern(text: &str) -> String {
    let mut pattern = "^".to_owned();
    for c in text.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('$');
    pattern
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn task(steps: &serde_json::Value) -> TaskJournal {
        let task = json!({ "id": "r.t1", "topic": "agent", "instanceId": "r", "nodeId": "n", "state": "COMPLETED",
            "attempt": 2, "failures": 0, "idempotencyKey": "k", "createdAt": "2026-01-01T00:00:00.000Z" });
        let journal = json!({ "task": task, "steps": steps });
        serde_json::from_value(journal).expect("a task with its journal")
    }

    fn turn(attempt: u32, sequence: u32, state: &str, result: &serde_json::Value) -> serde_json::Value {
        let added = json!([{ "role": "user", "text": "Refund order 5-1? (${x})" }]);
        json!({ "attempt": attempt, "sequence": sequence, "kind": "MODEL", "state": state, "toolRef": "model:m", "requestDigest": "d",
            "startedAt": "2026-01-01T00:00:00.000Z", "request": { "added": added }, "result": result })
    }

    #[test]
    fn the_answers_of_the_newest_attempt_become_rules_in_order() {
        let steps = json!([
            turn(
                1,
                1,
                "COMPLETED",
                &json!({ "text": "an earlier conversation", "model": "m" })
            ),
            turn(2, 1, "FAILED", &json!({ "text": "busy", "model": "m" })),
            turn(
                2,
                2,
                "COMPLETED",
                &json!({ "text": "", "model": "m", "calls": [
                { "tool": "crm__get", "arguments": { "note": "${y}", "n": 1 } },
                { "tool": "crm__get", "arguments": "{broken" } ] })
            ),
            turn(2, 3, "COMPLETED", &json!({ "text": "paid ${z}", "model": "m" })),
        ]);
        let script = rules(&task(&steps)).expect("rules");
        let prompt = r"^Refund order 5\\-1\\? \\(\\$\\{x\\}\\)$";
        let first = format!(
            r#"- {{"match":{{"turn":1,"prompt":"{prompt}"}},"calls":[{{"tool":"crm__get","arguments":{{"n":1,"note":"$${{y}}"}}}},{{"tool":"crm__get","arguments_text":"{{broken"}}]}}"#
        );
        let second = format!(r#"- {{"match":{{"turn":2,"prompt":"{prompt}"}},"text":"paid $${{z}}"}}"#);
        assert_eq!(script.lines().collect::<Vec<_>>(), [first, second]);
    }

    #[test]
    fn a_task_that_asked_no_model_has_no_rules() {
        assert_eq!(rules(&task(&json!([]))).expect("nothing"), "");
    }
}
