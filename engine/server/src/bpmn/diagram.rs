//! The diagram part, from the positions that the document gives.

use legation_language::model::{Definition, Node, NodeKind, Position};

use super::graph::{Graph, What};
use super::line;

/// Where a shape is drawn.
pub struct Place {
    x: i64,
    y: i64,
    width: i64,
    height: i64,
}

const EVENT: i64 = 36;
const GATEWAY: i64 = 50;
const TASK: (i64, i64) = (100, 80);

/// The place of every shape, in their order; None unless every node has a position.
pub fn places(definition: &Definition, graph: &Graph<'_>) -> Option<Vec<Place>> {
    let of = |node: &Node| node.ui.map(|at| node_place(node, at));
    graph
        .shapes
        .iter()
        .map(|shape| {
            Some(match &shape.what {
                What::Node(node) => of(node)?,
                What::ImplicitStart => {
                    let entry = of(definition.node(&definition.entry)?)?;
                    square(entry.x - 90, entry.y + (entry.height - EVENT) / 2, EVENT)
                }
                What::Caught { node, .. } => {
                    let host = of(node)?;
                    let before = format!("_caught_{}_", node.id);
                    let number = shape.id.strip_prefix(&before)?.parse::<i64>().ok()?;
                    square(host.x + 44 * number - 36, host.y + host.height - EVENT / 2, EVENT)
                }
                What::Expired { node, .. } => {
                    let host = of(node)?;
                    square(host.x + host.width - EVENT / 2, host.y - EVENT / 2, EVENT)
                }
                What::Outcome(node) => {
                    let host = of(node)?;
                    square(
                        host.x + host.width + 30,
                        host.y + (host.height - GATEWAY) / 2,
                        GATEWAY,
                    )
                }
            })
        })
        .collect()
}

fn node_place(node: &Node, at: Position) -> Place {
    match &node.kind {
        NodeKind::Start | NodeKind::End(_) | NodeKind::Timer(_) => square(at.x, at.y, EVENT),
        NodeKind::Exclusive(_) | NodeKind::Parallel(_) => square(at.x, at.y, GATEWAY),
        NodeKind::Agent(_)
        | NodeKind::EngineTask(_)
        | NodeKind::Decision(_)
        | NodeKind::Human(_)
        | NodeKind::CallProcess(_) => Place {
            x: at.x,
            y: at.y,
            width: TASK.0,
            height: TASK.1,
        },
    }
}

fn square(x: i64, y: i64, side: i64) -> Place {
    Place {
        x,
        y,
        width: side,
        height: side,
    }
}

pub fn write(xml: &mut String, process: &str, graph: &Graph<'_>, places: &[Place]) {
    line(xml, 1, r#"<bpmndi:BPMNDiagram id="_diagram">"#);
    line(
        xml,
        2,
        &format!(r#"<bpmndi:BPMNPlane id="_plane" bpmnElement="{process}">"#),
    );
    for (shape, place) in graph.shapes.iter().zip(places) {
        let id = &shape.id;
        line(
            xml,
            3,
            &format!(r#"<bpmndi:BPMNShape id="_shape_{id}" bpmnElement="{id}">"#),
        );
        line(
            xml,
            4,
            &format!(
                r#"<dc:Bounds x="{}" y="{}" width="{}" height="{}"/>"#,
                place.x, place.y, place.width, place.height
            ),
        );
        line(xml, 3, "</bpmndi:BPMNShape>");
    }
    let place = |id: &str| {
        let index = graph.shapes.iter().position(|shape| shape.id == id)?;
        places.get(index)
    };
    for flow in &graph.flows {
        let (Some(from), Some(to)) = (place(&flow.from), place(&flow.to)) else {
            continue;
        };
        line(
            xml,
            3,
            &format!(r#"<bpmndi:BPMNEdge id="_edge{0}" bpmnElement="{0}">"#, flow.id),
        );
        let (x, y) = (from.x + from.width, from.y + from.height / 2);
        line(xml, 4, &format!(r#"<di:waypoint x="{x}" y="{y}"/>"#));
        let (x, y) = (to.x, to.y + to.height / 2);
        line(xml, 4, &format!(r#"<di:waypoint x="{x}" y="{y}"/>"#));
        line(xml, 3, "</bpmndi:BPMNEdge>");
    }
    line(xml, 2, "</bpmndi:BPMNPlane>");
    line(xml, 1, "</bpmndi:BPMNDiagram>");
}
