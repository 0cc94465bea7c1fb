//! From the model's last words to what `complete` takes: text, or the object of the output contract.

use std::collections::BTreeMap;

use legation_protocol::Json;
use legation_protocol::agent::AgentNode;
use serde_json::value::RawValue;

use crate::models::raw_of;

/// The contract as the model reads it, after the instructions. Frozen with the node, so no data is in it (D43).
pub fn contract(agent: &AgentNode) -> String {
    let mut parts = Vec::new();
    if let Some(schema) = &agent.output_schema {
        parts.push(format!(
            "When you are done, answer with one JSON value that fits this JSON Schema, and nothing else:\n{}",
            schema.get()
        ));
    }
    if !agent.outcomes.is_empty() {
        let names = agent.outcomes.iter().map(|o| match &o.description {
            Some(description) => format!("- \"{}\": {description}", o.name),
            None => format!("- \"{}\"", o.name),
        });
        let names = names.collect::<Vec<_>>().join("\n");
        parts.push(if agent.output_schema.is_some() {
            format!("Add the field \"outcome\" to that object, one of:\n{names}")
        } else {
            format!(
                "When you are done, answer with one JSON object and nothing else: \
                 {{\"outcome\": …, \"result\": your answer as text}}, where the outcome is one of:\n{names}"
            )
        });
    }
    if agent.confidence_threshold.is_some() {
        parts.push(if agent.output_schema.is_some() || !agent.outcomes.is_empty() {
            "Add the field \"_confidence\" to that object: how sure you are of the answer, a number from 0 to 1."
                .to_owned()
        } else {
            "When you are done, answer with one JSON object and nothing else: {\"result\": your answer as text, \
             \"_confidence\": how sure you are of it, a number from 0 to 1}"
                .to_owned()
        });
    }
    parts.join("\n\n")
}

/// The result and the outcome in the model's last words. What breaks the contract goes to the engine as it is:
/// the engine counts and explains it.
pub fn result_of(agent: &AgentNode, text: &str) -> (Json, Option<String>) {
    if agent.output_schema.is_none() && agent.outcomes.is_empty() && agent.confidence_threshold.is_none() {
        return (raw_of(text), None);
    }
    let Some(found) = find_json(text) else {
        let word = text.trim().trim_matches(['"', '.', '`']);
        let outcome = agent
            .outcomes
            .iter()
            .find(|o| o.name == word)
            .map(|o| o.name.clone());
        return (raw_of(text), outcome);
    };
    if agent.outcomes.is_empty() {
        return (found, None);
    }
    let Ok(mut fields) = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(found.get()) else {
        return (found, None);
    };
    let outcome = fields
        .get("outcome")
        .and_then(|o| serde_json::from_str::<String>(o.get()).ok());
    if agent.output_schema.as_ref().is_some_and(|s| declares_outcome(s)) {
        return (found, outcome);
    }
    fields.remove("outcome");
    if agent.output_schema.is_some() {
        return (raw_of(&fields), outcome);
    }
    match (fields.remove("result"), fields.is_empty()) {
        (Some(result), true) => (result, outcome),
        (Some(result), false) => {
            fields.insert("result".to_owned(), result);
            (raw_of(&fields), outcome)
        }
        (None, true) => (raw_of(outcome.as_deref().unwrap_or_default()), outcome),
        (None, false) => (raw_of(&fields), outcome),
    }
}

fn declares_outcome(schema: &RawValue) -> bool {
    let schema: serde_json::Value = serde_json::from_str(schema.get()).unwrap_or_default();
    schema.pointer("/properties/outcome").is_some()
}

/// The whole text, a fenced block of it, or the last object in it.
fn find_json(text: &str) -> Option<Json> {
    let parse = |t: &str| serde_json::from_str::<Box<RawValue>>(t.trim()).ok();
    if let Some(whole) = parse(text) {
        return Some(whole);
    }
    let mut fences = text.split("```").skip(1).step_by(2).collect::<Vec<_>>();
    fences.reverse();
    for block in fences {
        let body = block
            .strip_prefix("json")
            .or_else(|| block.strip_prefix("JSON"))
            .unwrap_or(block);
        if let Some(found) = parse(body) {
            return Some(found);
        }
    }
    let end = text.rfind('}')?;
    // The widest object that ends there: an inner one would lose the rest.
    text.match_indices('{')
        .map(|(at, _)| at)
        .take(200)
        .find_map(|at| parse(text.get(at..=end)?))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a panic is the failure message of a test")]
mod tests {
    use super::super::tests::agent;
    use super::*;
    use legation_protocol::agent::OutcomeChoice;

    fn with_schema() -> AgentNode {
        let schema = r#"{"type":"object","properties":{"amount":{"type":"number"}}}"#;
        AgentNode {
            output_schema: Some(RawValue::from_string(schema.to_owned()).unwrap()),
            ..agent()
        }
    }

    fn with_outcomes(agent: AgentNode) -> AgentNode {
        let outcomes = ["paid", "refused"].map(|name| OutcomeChoice {
            name: name.to_owned(),
            description: None,
        });
        AgentNode {
            outcomes: outcomes.to_vec(),
            ..agent
        }
    }

    /// D42: a node with a threshold asks for a confidence, and the object that carries it is the result.
    #[test]
    fn a_threshold_asks_for_a_confidence() {
        let agent = AgentNode {
            confidence_threshold: Some(0.8),
            ..crate::turns::tests::agent()
        };
        assert!(contract(&agent).contains("_confidence"), "{}", contract(&agent));
        let (result, outcome) = result_of(&agent, r#"{"result": "paid", "_confidence": 0.9}"#);
        assert_eq!(
            (result.get(), outcome),
            (r#"{"result": "paid", "_confidence": 0.9}"#, None)
        );
    }

    #[test]
    fn text_stays_text_where_no_contract_is() {
        let (result, outcome) = result_of(&agent(), "{\"a\":1}");
        assert_eq!((result.get(), outcome), (r#""{\"a\":1}""#, None));
    }

    #[test]
    fn an_object_is_found_bare_fenced_or_at_the_end_with_its_digits() {
        let agent = with_schema();
        for text in [
            "{\"amount\":1.10}",
            "```json\n{\"amount\":1.10}\n```",
            "Here it is:\n```\n{\"amount\":1.10}\n```\nBye.",
            "I decided {so}. {\"amount\":1.10}",
        ] {
            assert_eq!(result_of(&agent, text).0.get(), "{\"amount\":1.10}", "{text}");
        }
        assert_eq!(result_of(&agent, "no json").0.get(), "\"no json\"");
    }

    #[test]
    fn an_outcome_is_taken_out_of_the_object_unless_the_schema_has_it() {
        let (result, outcome) = result_of(&with_outcomes(agent()), r#"{"outcome":"paid","result":"done"}"#);
        assert_eq!((result.get(), outcome.as_deref()), ("\"done\"", Some("paid")));
        let (result, outcome) = result_of(&with_outcomes(with_schema()), r#"{"outcome":"paid","amount":2}"#);
        assert_eq!(
            (result.get(), outcome.as_deref()),
            (r#"{"amount":2}"#, Some("paid"))
        );
        let (_, outcome) = result_of(&with_outcomes(agent()), "paid.");
        assert_eq!(outcome.as_deref(), Some("paid"));
        let (_, outcome) = result_of(&with_outcomes(agent()), "I cannot say");
        assert_eq!(outcome, None);
    }
}
