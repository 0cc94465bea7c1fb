//! Names that are read but that nothing writes: the commonest slip of the pen, said before an instance stumbles.
//! Warnings, because a start may be given more in later versions of a caller, and expressions may ask with `has`.

use super::codes::Code;
use super::names::{self, Produced};
use super::problem::Problems;
use super::process::Process;
use super::reads::reads_of_variables;
use super::words;
use super::written::Spots;
use super::yaml::At;
use crate::model::{Definition, Node, NodeKind};
use crate::template::Template;

/// Warns about names that no variable, node or built-in has.
pub(super) fn check(process: &Process<'_>, definition: &Definition, problems: &mut Problems) {
    let produced = Produced::of(definition);
    for (draft, node) in process.drafts.iter().zip(&definition.nodes) {
        check_prompt(&draft.at, node, problems);
        if produced.open {
            continue;
        }
        let mut spots = None;
        for path in reads_of_variables(node) {
            let Some(name) = path.first() else { continue };
            if produced.names.contains(name) || names::is_built_in(name) {
                continue;
            }
            let message = format!("`{}` reads `{name}`, which nothing writes", node.id);
            let near = words::nearest(name, &produced.list()).map(|near| format!("did you mean `{near}`?"));
            if problems.is_full() {
                return;
            }
            let spots = spots.get_or_insert_with(|| Spots::of(&draft.at));
            let spot = spots.of_variable(&path);
            let (place, pointer) = problems.spot(spot, &draft.at);
            let file = draft.at.file();
            problems
                .warning_at(file, place, &pointer, Code::NameUnknown, message)
                .maybe(near);
        }
    }
}

/// With `inputs` of its own, an agent sees nothing else (D31).
fn check_prompt(at: &At<'_>, node: &Node, problems: &mut Problems) {
    let (NodeKind::Agent(_), Some(inputs), true) = (&node.kind, &node.inputs, at.get("inputs").is_some())
    else {
        return;
    };
    for key in ["prompt", "instructions"] {
        let Some(text_at) = at.get(key) else { continue };
        let Some(template) = text_at.text().and_then(|text| Template::parse(text).ok()) else {
            continue;
        };
        for (expression, offset) in template.expressions() {
            for name in expression.references().iter().filter_map(|path| path.first()) {
                if inputs.iter().any(|mapping| mapping.name == *name) {
                    continue;
                }
                let place = problems.place_inside(&text_at, offset);
                let message = format!("`{key}` names `{name}`, which `inputs` does not give");
                problems
                    .warning_at(
                        text_at.file(),
                        place,
                        &text_at.pointer,
                        Code::NameUnknown,
                        message,
                    )
                    .hint(format!("inputs:\n  {name}: {name}"));
            }
        }
    }
}
