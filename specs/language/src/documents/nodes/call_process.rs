//! `call-process`: a child process as a node.

use super::{COMMON, NodeType, Reading};
use crate::documents::activity::{self, ACTIVITY};
use crate::documents::codes::Code;
use crate::documents::names;
use crate::documents::pins::{Found, Pinning};
use crate::documents::shape::{Field, Object, Shape, optional, required};
use crate::documents::yaml::At;
use crate::expr::Expr;
use crate::model::{CallProcess, Declaration, Definition, Mapping, Node, NodeKind, OnParentEnd, Source};

pub(super) const TYPE: NodeType = NodeType {
    name: "call-process",
    object: Object {
        name: "a `call-process` node",
        fields: &[COMMON, ACTIVITY, FIELDS],
    },
    read,
    pin,
};

const FIELDS: &[Field] = &[
    required("process", Shape::Text, "the key of the process to start"),
    optional(
        "version",
        Shape::Text,
        "pinned (the version deployed now, unless given) or latest",
    ),
    optional("recursive", Shape::Bool, "true when the process may call itself"),
    optional(
        "max_depth",
        Shape::Integer(1, 4),
        "a lower limit than the global depth of 4",
    ),
    optional(
        "on_parent_end",
        Shape::WordNotYet(&["cancel"], &["detach"]),
        "what becomes of the child when this process ends first",
    ),
];

fn read<'a>(at: &At<'a>, reading: &mut Reading<'a, '_>) -> Option<NodeKind> {
    let process_at = at.get("process")?;
    let process = process_at.text()?;
    if !names::is_process_key(process) {
        reading.problems.error(
            &process_at,
            Code::InvalidValue,
            format!("`{process}` is no key of a process"),
        );
        return None;
    }
    if let Some(version) = at.get("version")
        && !matches!(version.text(), Some("pinned" | "latest") | None)
    {
        reading
            .problems
            .error(
                &version,
                Code::NotYet,
                "calling a tagged version is reserved for a later release",
            )
            .hint("version: pinned");
    }
    Some(NodeKind::CallProcess(Box::new(CallProcess {
        process: process.to_owned(),
        version: None,
        recursive: is_recursive(at),
        max_depth: at.get("max_depth").map(|_| activity::integer(at, "max_depth", 4)),
        on_parent_end: OnParentEnd::Cancel,
    })))
}

fn is_recursive(at: &At<'_>) -> bool {
    at.get("recursive").and_then(|at| at.truth()) == Some(true)
}

/// Whether the version is fixed at deployment; else the latest at run time is called.
pub(in crate::documents) fn is_pinned(at: &At<'_>) -> bool {
    let latest = at.get("version").as_ref().and_then(At::text) == Some("latest");
    !is_recursive(at) && !latest
}

fn pin(at: &At<'_>, node: &mut Node, pinning: &mut Pinning<'_>) {
    let NodeKind::CallProcess(call) = &mut node.kind else {
        return;
    };
    let Some(process_at) = at.get("process") else {
        return;
    };
    if call.process == pinning.process {
        // Its inputs are those of the document itself, which the caller sees beside the call.
        if !call.recursive && is_pinned(at) {
            pinning
                .problems
                .error(
                    &process_at,
                    Code::CallCycle,
                    format!("`{}` calls itself", call.process),
                )
                .hint("recursive: true");
        }
        if node.inputs.is_none() {
            node.inputs = Some(same_names(pinning.variables, pinning.variables));
        }
        return;
    }
    let child = match pinning.child(&call.process) {
        Found::Definition(child) => child,
        Found::Broken => return,
        Found::Nothing => {
            pinning.process_missing(&process_at, &call.process);
            return;
        }
    };
    if is_pinned(at) {
        call.version = Some(child.version);
    }
    match &node.inputs {
        Some(inputs) => check_inputs(at, inputs, &child, pinning),
        None => node.inputs = Some(same_names(&child.variables, pinning.variables)),
    }
    if let (Some(outputs), Some(outputs_at)) = (&node.outputs, at.get("outputs")) {
        check_outputs(&outputs_at, outputs, &child, pinning);
    }
}

fn check_inputs(at: &At<'_>, inputs: &[Mapping], child: &Definition, pinning: &mut Pinning<'_>) {
    let Some(inputs_at) = at.get("inputs") else { return };
    let declared: Vec<&str> = child
        .variables
        .iter()
        .filter(|d| d.input)
        .map(|d| d.name.as_str())
        .collect();
    for (index, mapping) in inputs.iter().enumerate() {
        if declared.contains(&mapping.name.as_str()) {
            continue;
        }
        let place = activity::mapping_place(&inputs_at, index);
        pinning
            .problems
            .error(
                &place,
                Code::CallInput,
                format!("`{}` has no input `{}`", child.key, mapping.name),
            )
            .maybe(
                crate::documents::words::nearest(&mapping.name, &declared)
                    .map(|n| format!("did you mean `{n}`?")),
            );
    }
    for declaration in child
        .variables
        .iter()
        .filter(|d| d.input && d.required && d.default.is_none())
    {
        if !inputs.iter().any(|mapping| mapping.name == declaration.name) {
            let message = format!("`{}` requires the input `{}`", child.key, declaration.name);
            pinning.problems.error(&inputs_at, Code::CallInput, message);
        }
    }
}

/// Without `inputs`, the child gets the variables of the same names: those it requires, and those that this
/// process always has.
fn same_names(child: &[Declaration], here: &[Declaration]) -> Vec<Mapping> {
    let always_here = |name: &str| {
        let declared = here.iter().find(|declaration| declaration.name == name);
        declared.is_some_and(|d| d.default.is_some() || (d.input && d.required))
    };
    child
        .iter()
        .filter(|d| d.input && ((d.required && d.default.is_none()) || always_here(&d.name)))
        .filter_map(|d| {
            let from = Source::Expression(Expr::compile(&d.name).ok()?);
            Some(Mapping {
                name: d.name.clone(),
                from,
            })
        })
        .collect()
}

/// A bare name or `result.name` that this process cannot mean itself is asked of the child, which must know it.
fn check_outputs(outputs_at: &At<'_>, outputs: &[Mapping], child: &Definition, pinning: &mut Pinning<'_>) {
    for (index, mapping) in outputs.iter().enumerate() {
        let Source::Expression(expression) = &mapping.from else {
            continue;
        };
        let asked = match expression.path().as_deref() {
            Some([result, name, ..]) if result == "result" => name.clone(),
            Some([name]) if name != "result" && !pinning.produced.names.contains(name) => name.clone(),
            // `outputs: [name]` makes the name producible here, yet it is asked of the child.
            Some([name]) if *name == mapping.name => name.clone(),
            _ => continue,
        };
        let place = activity::mapping_place(outputs_at, index);
        pinning.check_output(&asked, child, &place);
    }
}
