//! Making nodes: chains kept flat, calls and macros checked, the height bounded.

use regex::{Regex, RegexBuilder};

use super::ast::{Arithmetic, Kind, Macro, Node, Relation};
use super::functions::{Function, suggestion};
use super::lexer::Token;
use super::{ExprError, MAX_NESTING};
use crate::Value;

/// Memory one compiled pattern may take, in bytes.
const PATTERN_SIZE: usize = 256 * 1024;

/// How strongly comparisons bind; the word `not` takes in one whole comparison.
pub(super) const RELATION_LEVEL: u8 = 3;

#[derive(Clone, Copy)]
pub(super) enum Operator {
    Or,
    And,
    Relation(Relation),
    Arithmetic(Arithmetic),
}

impl Operator {
    pub(super) fn of(token: &Token) -> Option<Self> {
        Some(match token.sign_or_word() {
            "||" | "or" => Self::Or,
            "&&" | "and" => Self::And,
            "==" | "eq" => Self::Relation(Relation::Equal),
            "!=" | "ne" => Self::Relation(Relation::NotEqual),
            "<" => Self::Relation(Relation::Less),
            "<=" => Self::Relation(Relation::LessOrEqual),
            ">" => Self::Relation(Relation::Greater),
            ">=" => Self::Relation(Relation::GreaterOrEqual),
            "in" => Self::Relation(Relation::In),
            "+" => Self::Arithmetic(Arithmetic::Add),
            "-" => Self::Arithmetic(Arithmetic::Subtract),
            "*" => Self::Arithmetic(Arithmetic::Multiply),
            "/" => Self::Arithmetic(Arithmetic::Divide),
            "%" => Self::Arithmetic(Arithmetic::Remainder),
            _ => return None,
        })
    }

    pub(super) fn level(self) -> u8 {
        match self {
            Self::Or => 1,
            Self::And => 2,
            Self::Relation(_) => RELATION_LEVEL,
            Self::Arithmetic(Arithmetic::Add | Arithmetic::Subtract) => 4,
            Self::Arithmetic(Arithmetic::Multiply | Arithmetic::Divide | Arithmetic::Remainder) => 5,
        }
    }
}

pub(super) fn combine(left: Node, operator: Operator, right: Node) -> Result<Node, ExprError> {
    let offset = left.offset;
    let kind = match (operator, left.kind) {
        (Operator::Or, Kind::Or(mut operands)) => {
            operands.push(right);
            Kind::Or(operands)
        }
        (Operator::And, Kind::And(mut operands)) => {
            operands.push(right);
            Kind::And(operands)
        }
        (Operator::Arithmetic(arithmetic), Kind::Arithmetic { first, mut rest })
            if same_level(&rest, operator) =>
        {
            rest.push((arithmetic, right));
            Kind::Arithmetic { first, rest }
        }
        (operator, kind) => {
            let left = Node { kind, ..left };
            match operator {
                Operator::Or => Kind::Or(vec![left, right]),
                Operator::And => Kind::And(vec![left, right]),
                Operator::Relation(relation) => Kind::Relation {
                    relation,
                    left: Box::new(left),
                    right: Box::new(right),
                },
                Operator::Arithmetic(arithmetic) => Kind::Arithmetic {
                    first: Box::new(left),
                    rest: vec![(arithmetic, right)],
                },
            }
        }
    };
    build(kind, offset)
}

fn same_level(rest: &[(Arithmetic, Node)], operator: Operator) -> bool {
    rest.first()
        .is_some_and(|(first, _)| Operator::Arithmetic(*first).level() == operator.level())
}

pub(super) fn build(kind: Kind, offset: usize) -> Result<Node, ExprError> {
    let (mut size, mut height) = (1, 0);
    for child in kind.children() {
        size += child.size;
        height = height.max(child.height);
    }
    if height == MAX_NESTING {
        return Err(too_deep(offset));
    }
    Ok(Node {
        kind,
        offset,
        size,
        height: height + 1,
    })
}

pub(super) fn has(mut args: Vec<Node>, offset: usize) -> Result<Node, ExprError> {
    let (Some(path), true) = (args.pop(), args.is_empty()) else {
        return Err(ExprError::new(
            "`has` takes one field, as in `has(order.id)`",
            offset,
        ));
    };
    if !matches!(
        path.kind,
        Kind::Name(_) | Kind::Select { .. } | Kind::Index { .. }
    ) {
        return Err(ExprError::new(
            "`has` takes one field, as in `has(order.id)`",
            path.offset,
        ));
    }
    build(Kind::Has(Box::new(path)), offset)
}

pub(super) fn call(name: &str, name_at: usize, args: Vec<Node>, offset: usize) -> Result<Node, ExprError> {
    let Some(function) = Function::named(name) else {
        let error = ExprError::new(format!("unknown function `{name}`"), name_at);
        return Err(match suggestion(name) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error,
        });
    };
    if let Some(complaint) = function.wrong_count(args.len()) {
        return Err(ExprError::new(complaint, name_at));
    }
    let pattern = match args.as_slice() {
        [
            _,
            Node {
                kind: Kind::Literal(Value::String(text)),
                offset,
                ..
            },
        ] if function == Function::Matches => Some(compile_pattern(text, *offset)?),
        _ => None,
    };
    build(
        Kind::Call {
            function,
            args,
            pattern,
        },
        offset,
    )
}

fn compile_pattern(text: &str, offset: usize) -> Result<Regex, ExprError> {
    let built = RegexBuilder::new(text).size_limit(PATTERN_SIZE).build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => ExprError::new("pattern is too large", offset),
        _ => ExprError::new("pattern is no regular expression", offset).hint(
            "look-around and back-references do not exist here; backslashes are doubled, or the text is r'…'",
        ),
    })
}

pub(super) fn expand(
    kind: Macro,
    name: &str,
    name_at: usize,
    over: Node,
    args: Vec<Node>,
) -> Result<Node, ExprError> {
    let offset = over.offset;
    let mut args = args.into_iter();
    let (item, second, third, more) = (args.next(), args.next(), args.next(), args.next());
    let shape = || {
        let message = format!("`{name}` takes a name and an expression, as in `items.{name}(item, item.ok)`");
        ExprError::new(message, name_at)
    };
    let (Some(item), Some(second), None) = (item, second, more) else {
        return Err(shape());
    };
    let Kind::Name(item) = item.kind else {
        return Err(shape());
    };
    let (condition, body) = match (kind, third) {
        (_, None) => (None, second),
        (Macro::Map, Some(body)) => (Some(Box::new(second)), body),
        (_, Some(_)) => return Err(shape()),
    };
    build(
        Kind::Macro {
            kind,
            over: Box::new(over),
            item,
            condition,
            body: Box::new(body),
        },
        offset,
    )
}

pub(super) fn too_deep(offset: usize) -> ExprError {
    ExprError::new(
        format!("expression nests deeper than {MAX_NESTING} levels"),
        offset,
    )
}
