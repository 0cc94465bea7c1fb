//! The syntax tree. Chains of one operator are flat, so that a long `a && b && c …` costs no stack; every node
//! knows its height, which the parser bounds.

use regex::Regex;

use super::functions::Function;
use crate::Value;

/// One node with its place in the text.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// Byte offset of its first letter, inside any `${`.
    pub offset: usize,
    /// Nodes in this subtree, itself included.
    pub size: u64,
    pub(super) height: usize,
}

/// What a node is.
#[derive(Clone, Debug)]
pub enum Kind {
    /// `1`, `'text'`, `true`, `null`.
    Literal(Value),
    /// A variable, or a name that a macro binds.
    Name(String),
    /// `[a, b]`.
    List(Vec<Node>),
    /// `{'a': b}`.
    Map(Vec<(Node, Node)>),
    /// `from.field`.
    Select { from: Box<Node>, field: String },
    /// `from[index]`.
    Index { from: Box<Node>, index: Box<Node> },
    /// `has(a.b)`; holds the path.
    Has(Box<Node>),
    /// `!a`, `not a`.
    Not(Box<Node>),
    /// `-a`.
    Negate(Box<Node>),
    /// `a && b && …`.
    And(Vec<Node>),
    /// `a || b || …`.
    Or(Vec<Node>),
    /// `a + b - c`, or `a * b / c`: one level of operators, from left to right.
    Arithmetic {
        first: Box<Node>,
        rest: Vec<(Arithmetic, Node)>,
    },
    /// `a < b`.
    Relation {
        relation: Relation,
        left: Box<Node>,
        right: Box<Node>,
    },
    /// `condition ? then : otherwise`.
    Conditional {
        condition: Box<Node>,
        then: Box<Node>,
        otherwise: Box<Node>,
    },
    /// `f(a, b)` or `a.f(b)`; the pattern is that of `matches` when it is a literal.
    Call {
        function: Function,
        args: Vec<Node>,
        pattern: Option<Regex>,
    },
    /// `over.filter(item, body)`, `over.map(item, condition, body)`.
    Macro {
        kind: Macro,
        over: Box<Node>,
        item: String,
        condition: Option<Box<Node>>,
        body: Box<Node>,
    },
}

/// The operators that compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// The operators that compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
}

/// The forms that evaluate their body once an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Macro {
    All,
    Exists,
    ExistsOne,
    Filter,
    Map,
}

impl Macro {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "all" => Self::All,
            "exists" => Self::Exists,
            "exists_one" | "existsOne" => Self::ExistsOne,
            "filter" => Self::Filter,
            "map" => Self::Map,
            _ => return None,
        })
    }
}

impl Kind {
    /// The nodes directly below, in the order of the text.
    pub fn children(&self) -> Vec<&Node> {
        match self {
            Self::Literal(_) | Self::Name(_) => Vec::new(),
            Self::List(items) | Self::And(items) | Self::Or(items) => items.iter().collect(),
            Self::Map(entries) => entries.iter().flat_map(|(key, value)| [key, value]).collect(),
            Self::Select { from, field: _ } => vec![from],
            Self::Index { from, index } => vec![from, index],
            Self::Has(inner) | Self::Not(inner) | Self::Negate(inner) => vec![inner],
            Self::Arithmetic { first, rest } => {
                let rest = rest.iter().map(|(_, operand)| operand);
                std::iter::once(&**first).chain(rest).collect()
            }
            Self::Relation {
                relation: _,
                left,
                right,
            } => vec![left, right],
            Self::Conditional {
                condition,
                then,
                otherwise,
            } => vec![condition, then, otherwise],
            Self::Call {
                function: _,
                args,
                pattern: _,
            } => args.iter().collect(),
            Self::Macro {
                kind: _,
                over,
                item: _,
                condition,
                body,
            } => {
                let mut nodes = vec![&**over];
                nodes.extend(condition.as_deref());
                nodes.push(body);
                nodes
            }
        }
    }
}
