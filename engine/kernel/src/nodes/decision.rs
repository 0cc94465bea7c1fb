//! `decision`: rules evaluated in the transaction; which rules matched is recorded.

use std::collections::BTreeMap;

use legation_language::Value;
use legation_language::model::{Column, DecisionTable, HitPolicy, Node};

use super::{NodeType, finish};
use crate::content::Content;
use crate::instance::{Event, Source};
use crate::moves::{Done, Moves, Trouble};

type Row = BTreeMap<String, Value>;

impl NodeType for DecisionTable {
    fn enter(&self, m: &mut Moves<'_, '_>, token: u32, node: &Node) -> Result<(), Trouble> {
        let inputs = match &node.inputs {
            Some(mappings) => Some(Value::Map(m.mapped(token, mappings, None)?)),
            None => None,
        };
        let matched = self.matched(m, token, inputs.as_ref())?;
        let result = self.answer(m, token, node, &matched, inputs.as_ref())?;
        let columns: BTreeMap<String, Content> = result
            .iter()
            .map(|(name, value)| (name.clone(), m.content(value.clone())))
            .collect();
        m.emit(Event::DecisionTaken {
            token,
            node: node.id.clone(),
            matched: matched.iter().map(|n| *n as u32).collect(),
            columns,
        });
        finish(
            m,
            token,
            node,
            Done {
                result: Value::Map(result),
                outcome: None,
                source: Source::node(&node.id),
            },
            None,
        )
    }
}

trait Rules {
    fn matched(&self, m: &Moves<'_, '_>, token: u32, inputs: Option<&Value>) -> Result<Vec<usize>, Trouble>;
    fn answer(
        &self,
        m: &Moves<'_, '_>,
        token: u32,
        node: &Node,
        matched: &[usize],
        inputs: Option<&Value>,
    ) -> Result<Row, Trouble>;
}

impl Rules for DecisionTable {
    /// The rules that are true, in order; for FIRST the search ends with the first.
    fn matched(&self, m: &Moves<'_, '_>, token: u32, inputs: Option<&Value>) -> Result<Vec<usize>, Trouble> {
        let mut matched = Vec::new();
        for (index, rule) in self.rules.iter().enumerate() {
            match m.evaluate(token, &rule.when, inputs)? {
                Value::Bool(true) => matched.push(index),
                Value::Bool(false) => continue,
                other => {
                    let node = m.token(token).map_or("?", |token| token.node.as_str());
                    let message = format!(
                        "node {node}: rule {} gave {} where true or false is needed",
                        index + 1,
                        other.kind()
                    );
                    return Err(Trouble::Incident {
                        code: "EXPRESSION_FAILED",
                        message,
                    });
                }
            }
            if self.hit_policy == HitPolicy::First {
                break;
            }
        }
        if self.hit_policy == HitPolicy::Priority {
            // Highest wins, then the first.
            let best = matched
                .iter()
                .copied()
                .max_by_key(|index| (self.rules[*index].priority, std::cmp::Reverse(*index)));
            return Ok(best.into_iter().collect());
        }
        Ok(matched)
    }

    fn answer(
        &self,
        m: &Moves<'_, '_>,
        token: u32,
        node: &Node,
        matched: &[usize],
        inputs: Option<&Value>,
    ) -> Result<Row, Trouble> {
        let row = |columns: &[Column]| -> Result<Row, Trouble> {
            let mut row = Row::new();
            for column in columns {
                row.insert(column.name.clone(), m.source(token, &column.value, inputs)?);
            }
            Ok(row)
        };
        let Some((first, rest)) = matched.split_first() else {
            return match &self.otherwise {
                Some(columns) => row(columns),
                None => Err(Trouble::Incident {
                    code: "NO_RULE",
                    message: format!("no rule of decision {} matches and it has no otherwise", node.id),
                }),
            };
        };
        let mut rows = vec![row(&self.rules[*first].then)?];
        for index in rest {
            rows.push(row(&self.rules[*index].then)?);
        }
        match self.hit_policy {
            HitPolicy::First | HitPolicy::Priority => Ok(rows.swap_remove(0)),
            HitPolicy::Unique if rest.is_empty() => Ok(rows.swap_remove(0)),
            HitPolicy::Any if rows.iter().all(|other| *other == rows[0]) => Ok(rows.swap_remove(0)),
            HitPolicy::Unique | HitPolicy::Any => Err(Trouble::Incident {
                code: "HIT_POLICY",
                message: format!(
                    "{} rules of decision {} match, against its hit policy",
                    matched.len(),
                    node.id
                ),
            }),
            HitPolicy::Collect => Ok(collected(rows)
                .into_iter()
                .map(|(name, values)| (name, Value::List(values)))
                .collect()),
            HitPolicy::CollectSum
            | HitPolicy::CollectMin
            | HitPolicy::CollectMax
            | HitPolicy::CollectCount => aggregated(self.hit_policy, node, collected(rows)),
        }
    }
}

/// The values of every column, in the order of the rules.
fn collected(rows: Vec<Row>) -> BTreeMap<String, Vec<Value>> {
    let mut columns: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for row in rows {
        for (name, value) in row {
            columns.entry(name).or_default().push(value);
        }
    }
    columns
}

fn aggregated(policy: HitPolicy, node: &Node, columns: BTreeMap<String, Vec<Value>>) -> Result<Row, Trouble> {
    let mut row = Row::new();
    for (name, values) in columns {
        if policy == HitPolicy::CollectCount {
            row.insert(name, Value::from(values.len() as i64));
            continue;
        }
        let numbers: Option<Vec<_>> = values.iter().map(Value::as_decimal).collect();
        let folded = numbers.and_then(|numbers| {
            numbers
                .into_iter()
                .try_fold(None, |so_far: Option<rust_decimal::Decimal>, number| {
                    Some(Some(match (policy, so_far) {
                        (_, None) => number,
                        (HitPolicy::CollectMin, Some(least)) => least.min(number),
                        (HitPolicy::CollectMax, Some(most)) => most.max(number),
                        (_, Some(sum)) => sum.checked_add(number)?,
                    }))
                })
        });
        let Some(Some(number)) = folded else {
            let message = format!(
                "decision {} cannot aggregate column {name}: it holds more than numbers",
                node.id
            );
            return Err(Trouble::Incident {
                code: "HIT_POLICY",
                message,
            });
        };
        row.insert(name, Value::Number(number));
    }
    Ok(row)
}
