//! A deployed process as BPMN 2.0 XML, for viewers and other tools. What BPMN has no word for (topics, models,
//! delegates) stands in attributes of the namespace `urn:legation:bpmn:1`, which readers skip.
//!
//! Node ids are kept. What the document only implies gets ids that begin with `_`, which no node's can: the start
//! event before the entry, boundary events, and the gateway behind a node with outcomes. The diagram part is written
//! only when every node has a position (`ui`).

mod diagram;
mod graph;

use std::fmt::Write;

use legation_language::model::{Definition, Moment, Node, NodeKind};

use graph::{Flow, Graph, Shape, What};

const HEAD: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<bpmn:definitions xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:bpmndi="http://www.omg.org/spec/BPMN/20100524/DI" xmlns:dc="http://www.omg.org/spec/DD/20100524/DC" xmlns:di="http://www.omg.org/spec/DD/20100524/DI" xmlns:legation="urn:legation:bpmn:1" id="_definitions" targetNamespace="urn:legation:bpmn:1" exporter="legation">
"#;

/// The process as BPMN 2.0 XML.
#[must_use]
pub fn export(definition: &Definition) -> String {
    let graph = Graph::of(definition);
    let mut xml = String::from(HEAD);
    for (number, code) in graph.errors.iter().enumerate() {
        let code = escape(code);
        line(
            &mut xml,
            1,
            &format!(
                r#"<bpmn:error id="_error_{}" name="{code}" errorCode="{code}"/>"#,
                number + 1
            ),
        );
    }
    let process = process_id(definition);
    let name = definition.name.as_deref().unwrap_or(&definition.key);
    line(
        &mut xml,
        1,
        &format!(
            r#"<bpmn:process id="{process}" name="{}" isExecutable="true" legation:key="{}" legation:version="{}">"#,
            escape(name),
            escape(&definition.key),
            definition.version
        ),
    );
    documentation(&mut xml, 2, definition.description.as_deref());
    for shape in &graph.shapes {
        element(&mut xml, &graph, shape);
    }
    for flow in &graph.flows {
        sequence(&mut xml, flow);
    }
    line(&mut xml, 1, "</bpmn:process>");
    if let Some(places) = diagram::places(definition, &graph) {
        diagram::write(&mut xml, &process, &graph, &places);
    }
    xml.push_str("</bpmn:definitions>\n");
    xml
}

/// Ids are unique in the whole document, so a node with the process's key takes it.
fn process_id(definition: &Definition) -> String {
    if definition.node(&definition.key).is_some() {
        "_process".to_owned()
    } else {
        definition.key.clone()
    }
}

fn element(xml: &mut String, graph: &Graph<'_>, shape: &Shape<'_>) {
    match &shape.what {
        What::Node(node) => node_element(xml, graph, node),
        What::ImplicitStart => line(xml, 2, r#"<bpmn:startEvent id="_start"/>"#),
        What::Caught { node, code } => {
            let event = match code {
                Some(code) => format!(
                    r#"<bpmn:errorEventDefinition errorRef="{}"/>"#,
                    graph.error_id(code)
                ),
                None => "<bpmn:errorEventDefinition/>".to_owned(),
            };
            boundary(xml, &shape.id, node, code.unwrap_or("any error"), &event);
        }
        What::Expired { node, when } => boundary(xml, &shape.id, node, &moment_text(when), &timer(when)),
        What::Outcome(node) => {
            let default = default_flow(graph, &shape.id);
            line(
                xml,
                2,
                &format!(
                    r#"<bpmn:exclusiveGateway id="{}" legation:outcomesOf="{}"{default}/>"#,
                    shape.id, node.id
                ),
            );
        }
    }
}

fn boundary(xml: &mut String, id: &str, node: &Node, name: &str, event: &str) {
    let name = escape(name);
    line(
        xml,
        2,
        &format!(
            r#"<bpmn:boundaryEvent id="{id}" name="{name}" attachedToRef="{}">"#,
            node.id
        ),
    );
    line(xml, 3, event);
    line(xml, 2, "</bpmn:boundaryEvent>");
}

fn node_element(xml: &mut String, graph: &Graph<'_>, node: &Node) {
    let own = |value: &str, name: &str| format!(r#" legation:{name}="{}""#, escape(value));
    let (tag, attributes, inside) = match &node.kind {
        NodeKind::Start => ("startEvent", String::new(), None),
        NodeKind::End(end) => {
            let inside = end.error.as_ref().map(|code| {
                format!(
                    r#"<bpmn:errorEventDefinition errorRef="{}"/>"#,
                    graph.error_id(code)
                )
            });
            ("endEvent", String::new(), inside)
        }
        NodeKind::Agent(agent) => {
            let mut attributes = own("agent", "type") + &own(&agent.topic, "topic");
            if let Some(model) = &agent.model {
                attributes += &own(model, "model");
            }
            let delegates: Vec<&str> = agent
                .delegates
                .iter()
                .map(|delegate| delegate.process.as_str())
                .collect();
            if !delegates.is_empty() {
                attributes += &own(&delegates.join(" "), "delegates");
            }
            ("serviceTask", attributes, None)
        }
        NodeKind::EngineTask(task) => (
            "serviceTask",
            own("engine-task", "type") + &own(&task.service, "topic"),
            None,
        ),
        NodeKind::Decision(_) => ("businessRuleTask", String::new(), None),
        NodeKind::Human(_) => ("userTask", String::new(), None),
        NodeKind::CallProcess(call) => (
            "callActivity",
            format!(r#" calledElement="{}""#, escape(&call.process)),
            None,
        ),
        NodeKind::Exclusive(_) => ("exclusiveGateway", default_flow(graph, &node.id), None),
        NodeKind::Parallel(_) => ("parallelGateway", String::new(), None),
        NodeKind::Timer(when) => ("intermediateCatchEvent", String::new(), Some(timer(when))),
    };
    let name = match (&node.name, &node.kind) {
        (Some(name), _) => format!(r#" name="{}""#, escape(name)),
        // Events and gateways are clearer without a technical name.
        (None, NodeKind::Start | NodeKind::End(_) | NodeKind::Parallel(_) | NodeKind::Exclusive(_)) => {
            String::new()
        }
        (None, _) => format!(r#" name="{}""#, node.id),
    };
    let open = format!(r#"<bpmn:{tag} id="{}"{name}{attributes}"#, node.id);
    if inside.is_none() && node.description.is_none() {
        line(xml, 2, &format!("{open}/>"));
        return;
    }
    line(xml, 2, &format!("{open}>"));
    documentation(xml, 3, node.description.as_deref());
    if let Some(inside) = inside {
        line(xml, 3, &inside);
    }
    line(xml, 2, &format!("</bpmn:{tag}>"));
}

fn sequence(xml: &mut String, flow: &Flow) {
    let name = flow
        .name
        .as_ref()
        .map(|name| format!(r#" name="{}""#, escape(name)))
        .unwrap_or_default();
    let open = format!(
        r#"<bpmn:sequenceFlow id="{}" sourceRef="{}" targetRef="{}"{name}"#,
        flow.id, flow.from, flow.to
    );
    match &flow.condition {
        None => line(xml, 2, &format!("{open}/>")),
        Some(condition) => {
            line(xml, 2, &format!("{open}>"));
            let text = escape(condition);
            line(
                xml,
                3,
                &format!(
                    r#"<bpmn:conditionExpression xsi:type="bpmn:tFormalExpression" language="CEL">{text}</bpmn:conditionExpression>"#
                ),
            );
            line(xml, 2, "</bpmn:sequenceFlow>");
        }
    }
}

fn default_flow(graph: &Graph<'_>, id: &str) -> String {
    let found = graph.flows.iter().find(|flow| flow.from == id && flow.is_default);
    found
        .map(|flow| format!(r#" default="{}""#, flow.id))
        .unwrap_or_default()
}

fn timer(when: &Moment) -> String {
    let (tag, text) = match when {
        Moment::After(ms) => ("timeDuration", iso_duration(*ms)),
        Moment::AfterExpression(expression) => ("timeDuration", expression.source().to_owned()),
        Moment::At(expression) => ("timeDate", expression.source().to_owned()),
    };
    format!(
        r#"<bpmn:timerEventDefinition><bpmn:{tag} xsi:type="bpmn:tFormalExpression">{}</bpmn:{tag}></bpmn:timerEventDefinition>"#,
        escape(&text)
    )
}

fn moment_text(when: &Moment) -> String {
    match when {
        Moment::After(ms) => iso_duration(*ms),
        Moment::AfterExpression(expression) | Moment::At(expression) => expression.source().to_owned(),
    }
}

/// ISO 8601, whole units only where they fit: `P5D`, `PT1H30M`, `PT0.5S`.
fn iso_duration(ms: i64) -> String {
    const DAY: i64 = 86_400_000;
    let (days, rest) = (ms / DAY, ms % DAY);
    let (hours, minutes) = (rest / 3_600_000, rest % 3_600_000 / 60_000);
    let (seconds, fraction) = (rest % 60_000 / 1_000, rest % 1_000);
    let mut text = String::from("P");
    if days > 0 {
        text += &format!("{days}D");
    }
    let mut time = String::new();
    if hours > 0 {
        time += &format!("{hours}H");
    }
    if minutes > 0 {
        time += &format!("{minutes}M");
    }
    if fraction > 0 {
        let digits = format!("{fraction:03}");
        time += &format!("{seconds}.{}S", digits.trim_end_matches('0'));
    } else if seconds > 0 || (days == 0 && time.is_empty()) {
        time += &format!("{seconds}S");
    }
    if !time.is_empty() {
        text += &format!("T{time}");
    }
    text
}

fn documentation(xml: &mut String, depth: usize, text: Option<&str>) {
    if let Some(text) = text {
        line(
            xml,
            depth,
            &format!("<bpmn:documentation>{}</bpmn:documentation>", escape(text)),
        );
    }
}

fn line(xml: &mut String, depth: usize, text: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(xml, "{:1$}{text}", "", depth * 2);
}

/// XML text: what has a meaning there is written as a reference, what XML cannot carry is left out.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            other if other.is_control() => {}
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{escape, iso_duration};

    #[test]
    fn durations_are_iso_8601() {
        let cases = [
            (0, "PT0S"),
            (500, "PT0.5S"),
            (5_400_000, "PT1H30M"),
            (432_000_000, "P5D"),
            (86_401_000, "P1DT1S"),
        ];
        for (ms, text) in cases {
            assert_eq!(iso_duration(ms), text);
        }
    }

    #[test]
    fn text_cannot_break_out_of_xml() {
        assert_eq!(escape("a<b & \"c\"\u{0}"), "a&lt;b &amp; &quot;c&quot;");
    }
}
