//! `legation lineage`: the tree of instances, and the agent step or node that started each (D47).

use legation_protocol::lineage::{Lineage, LineageNode};

use super::Global;
use super::client::{Client, encode};
use super::print::{self, Ink};

pub async fn run(global: &Global, id: &str) -> anyhow::Result<()> {
    let client = Client::new(global)?;
    let answer = client
        .get::<Lineage>(&format!("/v1/instances/{}/lineage", encode(id)))
        .await?;
    if global.json {
        print::json(&answer.text);
        return Ok(());
    }
    say!("{}", draw(&answer.body, Ink::stdout()).trim_end());
    Ok(())
}

/// The tree as text: ancestors above, what was started below.
#[must_use]
pub fn draw(lineage: &Lineage, ink: Ink) -> String {
    let mut out = String::new();
    let mut indent = String::new();
    for (depth, ancestor) in lineage.ancestors.iter().enumerate() {
        let connector = if depth == 0 { "" } else { "└─ " };
        out.push_str(&format!(
            "{indent}{connector}{}\n",
            ink.dim(&label(ancestor, ink))
        ));
        if depth > 0 {
            indent.push_str("   ");
        }
    }
    let connector = if lineage.ancestors.is_empty() {
        ""
    } else {
        "└─ "
    };
    branch(&lineage.instance, &indent, connector, ink, &mut out);
    out
}

fn branch(node: &LineageNode, indent: &str, connector: &str, ink: Ink, out: &mut String) {
    out.push_str(&format!("{indent}{connector}{}\n", label(node, ink)));
    let below = match connector {
        "" => indent.to_owned(),
        "├─ " => format!("{indent}│  "),
        _ => format!("{indent}   "),
    };
    for (place, child) in node.children.iter().enumerate() {
        let connector = if place + 1 == node.children.len() {
            "└─ "
        } else {
            "├─ "
        };
        branch(child, &below, connector, ink, out);
    }
}

fn label(node: &LineageNode, ink: Ink) -> String {
    let origin = match (&node.started_by_agent, &node.parent_node_id) {
        (Some(by), _) => format!(
            "  started by agent {}, step {}.{}, model {}, prompt {}",
            by.node_id,
            by.attempt,
            by.sequence,
            print::model(by.model.as_deref(), by.used_model.as_deref()).unwrap_or_else(|| "?".to_owned()),
            by.prompt_version.as_deref().unwrap_or("?")
        ),
        (None, Some(from)) => format!("  started by {from}"),
        (None, None) => String::new(),
    };
    format!(
        "{} {} {}{}",
        node.process,
        node.id,
        ink.state(&print::word(&node.status)),
        ink.dim(&origin)
    )
}
