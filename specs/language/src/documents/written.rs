//! Where in a node's text variables are read, so that a problem with a name points there and not at the node.

use std::collections::BTreeMap;

use super::nodes;
use super::shape::{Object, Shape, takes};
use super::yaml::At;
use crate::expr::Expr;
use crate::template::Template;

/// A text, and the byte in it.
pub(super) type Spot<'a> = (At<'a>, usize);

type Found<'a> = BTreeMap<Vec<String>, Spot<'a>>;

/// The first place of every path that a node's text reads. Made in one pass, and only for nodes that have a problem:
/// searching for each name anew would make a hostile document costly.
#[derive(Default)]
pub(super) struct Spots<'a> {
    inputs: Found<'a>,
    outputs: Found<'a>,
    others: Found<'a>,
}

impl<'a> Spots<'a> {
    pub(super) fn of(node: &At<'a>) -> Self {
        let mut spots = Self::default();
        let name = node.get("type").and_then(|at| at.text());
        let Some(node_type) = name.and_then(nodes::find) else {
            return spots;
        };
        for (entry, value) in node.entries() {
            let found = match entry.key.as_str() {
                "inputs" => &mut spots.inputs,
                "outputs" => &mut spots.outputs,
                _ => &mut spots.others,
            };
            if let Some(field) = node_type.object.all().find(|field| field.name == entry.key) {
                collect(&value, &field.shape, found);
            }
        }
        spots
    }

    /// Where variables are read: not in `outputs`, whose names may be keys of the result. An agent with inputs sees
    /// nothing else, so they are what is wrong even where its prompt says the same.
    pub(super) fn of_variable(&self, path: &[String]) -> Option<&Spot<'a>> {
        self.inputs.get(path).or_else(|| self.others.get(path))
    }

    pub(super) fn anywhere(&self, path: &[String]) -> Option<&Spot<'a>> {
        self.of_variable(path).or_else(|| self.outputs.get(path))
    }
}

fn collect<'a>(at: &At<'a>, shape: &'static Shape, found: &mut Found<'a>) {
    match shape {
        Shape::Expression => {
            let expression = at.text().and_then(|text| Expr::compile(text).ok());
            note(at, expression.map(|expression| expression.places()), found);
        }
        // A literal may be one whole `${…}`.
        Shape::Template | Shape::Prompt | Shape::Literal => {
            let template = at.text().and_then(|text| Template::parse(text).ok());
            note(at, template.map(|template| template.places()), found);
        }
        // In a list of inputs a name is what it reads.
        Shape::Name => {
            let name = at.text().map(|name| vec![(vec![name.to_owned()], 0)]);
            note(at, name, found);
        }
        Shape::List(inner) => at.items().iter().for_each(|item| collect(item, inner, found)),
        Shape::Map(inner) => at
            .entries()
            .iter()
            .for_each(|(_, value)| collect(value, inner, found)),
        Shape::Object(object) => fields(at, object, found),
        // A text may be a duration as well as an expression; only the latter reads.
        Shape::Either(shapes) => shapes
            .iter()
            .filter(|shape| takes(shape, &at.tree.kind))
            .for_each(|shape| collect(at, shape, found)),
        // A moment may be one whole `${…}`, where a duration or a date would stand.
        Shape::Text if at.text().is_some_and(|text| text.trim_start().starts_with("${")) => {
            collect(at, &Shape::Expression, found);
        }
        Shape::Node
        | Shape::Text
        | Shape::Bool
        | Shape::Integer(..)
        | Shape::Number(..)
        | Shape::Duration
        | Shape::Word(_)
        | Shape::WordNotYet(..)
        | Shape::NodeId
        | Shape::JsonSchema => {}
    }
}

fn fields<'a>(at: &At<'a>, object: &'static Object, found: &mut Found<'a>) {
    for (entry, value) in at.entries() {
        if let Some(field) = object.all().find(|field| field.name == entry.key) {
            collect(&value, &field.shape, found);
        }
    }
}

fn note<'a>(at: &At<'a>, places: Option<Vec<(Vec<String>, usize)>>, found: &mut Found<'a>) {
    for (path, offset) in places.into_iter().flatten() {
        found.entry(path).or_insert_with(|| (at.clone(), offset));
    }
}
