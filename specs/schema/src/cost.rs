//! What a schema can cost. A validator looks at one place of a value once for every way in which the schema leads there:
//! two alternatives that lead back to the schema above them double that with every level of the value, and a value of 60
//! levels is never done. So the ways are counted, before any value is seen, level by level, for the worst value there is.

use std::collections::{HashMap, HashSet};
use std::ptr;

use serde_json::{Map, Value};

/// The ways in which a schema may look at one place. Alternatives of large contracts are some hundreds.
const MOST_VISITS: u64 = 1_000;

/// Different places that a value may have for a schema.
const MOST_PLACES: usize = 10_000;

/// Levels of a value, as many as JSON may have here.
const LEVELS: usize = 128;

/// Parts that the counting itself may look at, and what it may keep of them: a schema that takes more is as bad.
const MOST_LOOKS: usize = 20_000_000;
const MOST_KEPT: usize = 2_000_000;

/// What a built-in schema of schemas looks at, about.
const META_VISITS: u64 = 50;

/// Where a schema's part looks, seen from the place that it is given.
enum Below<'a> {
    /// A member by its name.
    Member(&'a str),
    /// Every member but those that the schema names.
    OtherMembers(HashSet<&'a str>),
    /// An element by its place.
    Element(usize),
    /// Every element from a place on.
    Elements(usize),
    /// The members' names.
    Names,
}

#[derive(Default)]
struct Node<'a> {
    weight: u64,
    /// Parts that look at the same place.
    here: Vec<usize>,
    below: Vec<(Below<'a>, usize)>,
}

/// How often a node is visited.
type Visits = HashMap<usize, u64>;

/// The nodes that lead to one place of a value, and how often, sorted.
type Place = Vec<(usize, u64)>;

struct Graph<'a> {
    root: &'a Value,
    nodes: Vec<Node<'a>>,
    known: HashMap<*const Value, usize>,
    open: Vec<(usize, &'a Value)>,
    /// Parts of the whole document.
    size: usize,
    /// What is left of [`MOST_LOOKS`].
    looks: usize,
}

/// How often one place may be looked at, at most.
///
/// # Errors
/// In words: a reference leads outside, or to itself; or the number is too large.
pub(crate) fn visits(schema: &Value) -> Result<u64, String> {
    let mut graph = Graph {
        root: schema,
        nodes: Vec::new(),
        known: HashMap::new(),
        open: Vec::new(),
        size: parts(schema).count(),
        looks: MOST_LOOKS,
    };
    graph.node(schema);
    while let Some((node, at)) = graph.open.pop() {
        if let Value::Object(entries) = at {
            graph.look(node, entries)?;
        }
    }
    let reach = graph.reach()?;
    let mut worst = 0;
    let mut seen = HashSet::new();
    let mut level = HashSet::from([vec![(0, 1)]]);
    for _ in 0..LEVELS {
        let mut below = HashSet::new();
        for entries in level {
            let all = graph.all(&entries, &reach);
            let total = graph.total(&all);
            if total > MOST_VISITS || seen.len() > MOST_PLACES {
                return Err(too_costly());
            }
            worst = worst.max(total);
            let parts = all.keys().map(|node| graph.nodes[*node].below.len());
            graph.spend(parts.sum())?;
            below.extend(graph.next(&all));
            seen.insert(entries);
        }
        level = below.difference(&seen).cloned().collect();
    }
    Ok(worst)
}

fn too_costly() -> String {
    format!(
        "it can look at one value in more than {MOST_VISITS} ways: alternatives that lead back to the schema above them multiply with every level"
    )
}

impl<'a> Graph<'a> {
    fn node(&mut self, at: &'a Value) -> usize {
        *self.known.entry(ptr::from_ref(at)).or_insert_with(|| {
            self.nodes.push(Node {
                weight: 1,
                ..Node::default()
            });
            self.open.push((self.nodes.len() - 1, at));
            self.nodes.len() - 1
        })
    }

    /// Notes where the parts of a schema look.
    fn look(&mut self, node: usize, entries: &'a Map<String, Value>) -> Result<(), String> {
        for (keyword, part) in entries {
            match (keyword.as_str(), part) {
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(to)) => self.follow(node, to)?,
                ("allOf" | "anyOf" | "oneOf", Value::Array(parts)) => {
                    parts.iter().for_each(|part| self.here(node, part));
                }
                ("not" | "if" | "then" | "else", part) => self.here(node, part),
                ("dependentSchemas" | "dependencies", Value::Object(parts)) => {
                    parts.values().for_each(|part| self.here(node, part));
                }
                ("properties", Value::Object(parts)) => {
                    for (name, part) in parts {
                        self.below(node, Below::Member(name), part);
                    }
                }
                ("patternProperties", Value::Object(parts)) => {
                    for part in parts.values() {
                        self.below(node, Below::OtherMembers(HashSet::new()), part);
                    }
                }
                ("additionalProperties" | "unevaluatedProperties", part) => {
                    let named = entries.get("properties").and_then(Value::as_object);
                    let named = named.into_iter().flatten().map(|(name, _)| name.as_str());
                    self.below(node, Below::OtherMembers(named.collect()), part);
                }
                ("propertyNames", part) => self.below(node, Below::Names, part),
                ("prefixItems" | "items", Value::Array(parts)) => {
                    for (place, part) in parts.iter().enumerate() {
                        self.below(node, Below::Element(place), part);
                    }
                }
                ("items" | "additionalItems" | "unevaluatedItems", part) => {
                    let listed = entries.get("prefixItems").or_else(|| entries.get("items"));
                    let from = listed.and_then(Value::as_array).map_or(0, Vec::len);
                    self.below(node, Below::Elements(from), part);
                }
                ("contains", part) => self.below(node, Below::Elements(0), part),
                _ => {}
            }
        }
        Ok(())
    }

    fn spend(&mut self, looks: usize) -> Result<(), String> {
        self.looks = self.looks.checked_sub(looks).ok_or_else(too_costly)?;
        Ok(())
    }

    fn here(&mut self, node: usize, part: &'a Value) {
        let part = self.node(part);
        self.nodes[node].here.push(part);
    }

    fn below(&mut self, node: usize, below: Below<'a>, part: &'a Value) {
        let part = self.node(part);
        self.nodes[node].below.push((below, part));
    }

    /// A reference. A dynamic one may lead to any part with such an anchor.
    fn follow(&mut self, node: usize, to: &'a str) -> Result<(), String> {
        let is_meta = |prefix| to.starts_with(prefix);
        if is_meta("https://json-schema.org/draft") || is_meta("http://json-schema.org/draft") {
            self.nodes[node].weight += META_VISITS;
            return Ok(());
        }
        // All but pointers are looked for in the whole document.
        if !to.starts_with("#/") && to != "#" {
            self.spend(self.size)?;
        }
        let targets = targets(self.root, to);
        self.spend(targets.len())?;
        if targets.is_empty() {
            return Err(format!("`$ref: {to}` leads outside the schema"));
        }
        targets.into_iter().for_each(|target| self.here(node, target));
        Ok(())
    }

    /// For each node, the nodes that are visited at the same place, itself included.
    fn reach(&self) -> Result<Vec<Visits>, String> {
        let mut waiting = vec![0_usize; self.nodes.len()];
        for target in self.nodes.iter().flat_map(|node| &node.here) {
            waiting[*target] += 1;
        }
        let mut free: Vec<usize> = (0..waiting.len()).filter(|node| waiting[*node] == 0).collect();
        let mut order = Vec::with_capacity(waiting.len());
        while let Some(node) = free.pop() {
            order.push(node);
            for target in &self.nodes[node].here {
                waiting[*target] -= 1;
                if waiting[*target] == 0 {
                    free.push(*target);
                }
            }
        }
        if order.len() < self.nodes.len() {
            return Err("a `$ref` leads to itself".to_owned());
        }
        let mut reach = vec![Visits::new(); self.nodes.len()];
        let mut kept = 0;
        for node in order.into_iter().rev() {
            let mut all = Visits::from([(node, 1)]);
            for target in &self.nodes[node].here {
                for (part, count) in &reach[*target] {
                    add(&mut all, *part, *count);
                }
            }
            kept += all.len();
            if self.total(&all) > MOST_VISITS || kept > MOST_KEPT {
                return Err(too_costly());
            }
            reach[node] = all;
        }
        Ok(reach)
    }

    /// Every node that is visited at a place to which these lead.
    fn all(&self, entries: &Place, reach: &[Visits]) -> Visits {
        let mut all = Visits::new();
        for (node, times) in entries {
            for (part, count) in &reach[*node] {
                add(&mut all, *part, times.saturating_mul(*count));
            }
        }
        all
    }

    fn total(&self, visits: &Visits) -> u64 {
        let weighed = visits
            .iter()
            .map(|(node, count)| count.saturating_mul(self.nodes[*node].weight));
        weighed.fold(0, u64::saturating_add)
    }

    /// The kinds of places one level down, each with what leads there: every member and element that something names,
    /// one that nothing names, and the names.
    fn next(&self, all: &Visits) -> Vec<Place> {
        let mut members: HashMap<&str, Visits> = HashMap::new();
        let mut elements: HashMap<usize, Visits> = HashMap::from([(usize::MAX, Visits::new())]);
        let mut names = Visits::new();
        let mut rest = Visits::new();
        let (mut other_members, mut other_elements) = (Vec::new(), Vec::new());
        for (node, count) in all {
            for (below, part) in &self.nodes[*node].below {
                match below {
                    Below::Member(name) => add(members.entry(*name).or_default(), *part, *count),
                    Below::Element(place) => add(elements.entry(*place).or_default(), *part, *count),
                    Below::OtherMembers(named) => {
                        add(&mut rest, *part, *count);
                        other_members.push((named, *part, *count));
                    }
                    Below::Elements(from) => other_elements.push((*from, *part, *count)),
                    Below::Names => add(&mut names, *part, *count),
                }
            }
        }
        for (member, led) in &mut members {
            for (_, part, count) in other_members
                .iter()
                .filter(|(named, ..)| !named.contains(*member))
            {
                add(led, *part, *count);
            }
        }
        for (element, led) in &mut elements {
            for (_, part, count) in other_elements.iter().filter(|(from, ..)| element >= from) {
                add(led, *part, *count);
            }
        }
        let places = members
            .into_values()
            .chain(elements.into_values())
            .chain([names, rest]);
        places.filter(|led| !led.is_empty()).map(sorted).collect()
    }
}

fn sorted(visits: Visits) -> Place {
    let mut place: Place = visits.into_iter().collect();
    place.sort_unstable();
    place
}

fn add(visits: &mut Visits, node: usize, count: u64) {
    let sum = visits.entry(node).or_default();
    *sum = sum.saturating_add(count);
}

/// The parts that a reference within the document leads to.
fn targets<'a>(root: &'a Value, to: &str) -> Vec<&'a Value> {
    let (resource, fragment) = to.split_once('#').unwrap_or((to, ""));
    let base = if resource.is_empty() {
        Some(root)
    } else {
        parts(root).find(|part| {
            let id = part.get("$id").or_else(|| part.get("id")).and_then(Value::as_str);
            let id = id.map(|id| id.trim_end_matches('#'));
            id.is_some_and(|id| id == resource || id.ends_with(&format!("/{resource}")))
        })
    };
    let Some(base) = base else { return Vec::new() };
    if fragment.is_empty() || fragment.starts_with('/') {
        return base.pointer(&plain(fragment)).into_iter().collect();
    }
    let is_it = |part: &&Value| {
        let named = |keyword: &str| part.get(keyword).and_then(Value::as_str);
        named("$anchor") == Some(fragment)
            || named("$dynamicAnchor") == Some(fragment)
            || named("$id").and_then(|id| id.strip_prefix('#')) == Some(fragment)
    };
    parts(base).filter(is_it).collect()
}

fn parts(root: &Value) -> impl Iterator<Item = &Value> {
    let mut open = vec![root];
    std::iter::from_fn(move || {
        let here = open.pop()?;
        match here {
            Value::Array(items) => open.extend(items),
            Value::Object(entries) => open.extend(entries.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        Some(here)
    })
}

/// A fragment without its percent signs (RFC 3986 §2.1).
fn plain(fragment: &str) -> String {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let [first, more @ ..] = rest {
        let code = more.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        match (first, code.and_then(|code| u8::from_str_radix(code, 16).ok())) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &more[2..];
            }
            _ => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_schema_looks_at_is_counted() {
        for (schema, count) in [
            (json!({}), 1),
            (json!(true), 1),
            (json!({"properties": {"a": {}, "b": {}}}), 1),
            (json!({"anyOf": [{}, {"allOf": [{}, {}]}]}), 5),
            (json!({"items": {"not": {"if": {}}}}), 3),
            // A list of lists, a tree with two branches, a map of maps.
            (json!({"items": {"$ref": "#"}}), 2),
            (
                json!({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}),
                2,
            ),
            (
                json!({"properties": {"a": {"$ref": "#"}}, "additionalProperties": {"$ref": "#"}}),
                2,
            ),
            (json!({"prefixItems": [{"$ref": "#"}], "items": {"$ref": "#"}}), 2),
            (json!({"$defs": {"a%b": {}}, "$ref": "#/$defs/a%25b"}), 2),
            (
                json!({"$defs": {"a": {"$anchor": "it"}}, "items": {"$ref": "#it"}}),
                2,
            ),
            (
                json!({"$id": "https://x.example/s", "$defs": {"a": {"$id": "a.json"}}, "$ref": "a.json"}),
                2,
            ),
            (
                json!({"$ref": "https://json-schema.org/draft/2020-12/schema"}),
                51,
            ),
        ] {
            assert_eq!(visits(&schema), Ok(count), "{schema}");
        }
    }

    #[test]
    fn what_multiplies_with_every_level_is_refused() {
        let twice = json!([{"$ref": "#"}, {"$ref": "#"}]);
        for schema in [
            json!({"items": {"anyOf": twice}}),
            json!({"anyOf": [{"items": {"$ref": "#"}}, {"contains": {"$ref": "#"}}]}),
            json!({"properties": {"a": {"$ref": "#"}}, "patternProperties": {"^a": {"$ref": "#"}}}),
            json!({"allOf": [{"additionalProperties": {"$ref": "#"}}, {"unevaluatedProperties": {"$ref": "#"}}]}),
            json!({"$dynamicAnchor": "n", "items": {"oneOf": [{"$dynamicRef": "#n"}, {"$dynamicRef": "#n"}]}}),
        ] {
            assert!(visits(&schema).is_err(), "{schema}");
        }
        // Without recursion: a chain of doublings.
        let mut defs = serde_json::Map::new();
        for number in 0..30 {
            let next = json!({"$ref": format!("#/$defs/d{}", number + 1)});
            defs.insert(format!("d{number}"), json!({"anyOf": [next, next]}));
        }
        defs.insert("d30".to_owned(), json!({}));
        assert!(visits(&json!({"$defs": defs, "$ref": "#/$defs/d0"})).is_err());
    }

    /// The counting is bounded as well: a megabyte of schema must not take minutes to refuse.
    #[test]
    fn a_schema_that_is_long_to_count_is_refused() {
        let many = |count: usize, part: Value| Value::from(vec![part; count]);
        let by_name =
            json!({"$defs": {"x": {"$anchor": "x"}}, "prefixItems": many(20_000, json!({"$ref": "#x"}))});
        let dynamic = json!({
            "$defs": {"all": many(5_000, json!({"$dynamicAnchor": "n"}))},
            "prefixItems": many(5_000, json!({"$dynamicRef": "#n"})),
        });
        let wide = json!({
            "$defs": {"wide": {"allOf": many(900, json!({}))}},
            "prefixItems": many(20_000, json!({"$ref": "#/$defs/wide"})),
        });
        for schema in [by_name, dynamic, wide] {
            assert!(visits(&schema).is_err());
        }
    }

    #[test]
    fn a_reference_that_comes_back_without_descending_or_leads_outside_is_refused() {
        for schema in [
            json!({"$ref": "#"}),
            json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"not": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"}),
            json!({"$ref": "#/$defs/none"}),
            json!({"$ref": "#none"}),
            json!({"$ref": "other.json"}),
        ] {
            assert!(visits(&schema).is_err(), "{schema}");
        }
    }
}
