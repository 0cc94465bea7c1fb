//! `engine-task`: work for any worker that serves the topic.

use super::{COMMON, NodeType, Reading};
use crate::documents::activity::{self, ACTIVITY};
use crate::documents::codes::Code;
use crate::documents::delegates;
use crate::documents::pins::Pinning;
use crate::documents::shape::{Field, Object, Shape, optional, required};
use crate::documents::yaml::At;
use crate::model::{EngineTask, Node, NodeKind};

pub(super) const TYPE: NodeType = NodeType {
    name: "engine-task",
    object: Object {
        name: "an `engine-task` node",
        fields: &[COMMON, ACTIVITY, FIELDS],
    },
    read,
    pin,
};

const MAX_STEPS: u32 = 10_000;

const FIELDS: &[Field] = &[
    required(
        "service",
        Shape::Text,
        "the topic that workers fetch, such as payments.payout",
    ),
    optional(
        "priority",
        activity::PRIORITY,
        "higher is fetched first; 0 unless given",
    ),
    optional(
        "start_within",
        Shape::Duration,
        "unserved for this long raises an alarm",
    ),
    optional(
        "headers",
        Shape::Map(&Shape::Literal),
        "fixed values for the worker",
    ),
    optional(
        "delegates",
        Shape::List(&delegates::SHAPE),
        "processes that the worker may start",
    ),
    optional(
        "max_steps",
        Shape::Integer(1, MAX_STEPS as i64),
        "journal steps per attempt; 10,000 unless given",
    ),
    optional(
        "max_concurrent",
        Shape::Integer(1, 50),
        "children running at once; 4 unless given",
    ),
];

fn read<'a>(at: &At<'a>, reading: &mut Reading<'a, '_>) -> Option<NodeKind> {
    let service_at = at.get("service")?;
    let service = service_at.text()?;
    if !is_topic(service) {
        reading
            .problems
            .error(
                &service_at,
                Code::InvalidValue,
                format!("`{service}` is no topic"),
            )
            .hint("letters, digits, `.`, `_` and `-`, at most 128, such as payments.payout");
        return None;
    }
    let family = service.split('.').next().unwrap_or_default();
    if matches!(family, "agent" | "script") {
        let message = format!("the topic `{service}` belongs to `{family}` nodes");
        reading.problems.error(&service_at, Code::InvalidValue, message);
        return None;
    }
    Some(NodeKind::EngineTask(EngineTask {
        service: service.to_owned(),
        priority: activity::priority(at, reading.problems),
        start_within_ms: activity::duration(at, "start_within"),
        headers: at.get("headers").map_or_else(Default::default, |headers| {
            headers
                .entries()
                .iter()
                .map(|(entry, value)| (entry.key.clone(), value.value()))
                .collect()
        }),
        delegates: Vec::new(),
        max_steps: activity::integer(at, "max_steps", MAX_STEPS),
        max_concurrent: activity::integer(at, "max_concurrent", 4),
    }))
}

fn is_topic(text: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    text.len() <= 128 && text.bytes().all(good) && text.starts_with(|c: char| c.is_ascii_alphanumeric())
}

fn pin(at: &At<'_>, node: &mut Node, pinning: &mut Pinning<'_>) {
    let frozen = delegates::freeze(at, &[], pinning);
    if let NodeKind::EngineTask(task) = &mut node.kind {
        task.delegates = frozen;
    }
}
