//! From text to tree: precedence climbing over tokens read in advance. Every way down counts its depth, and
//! every node its height, so that no input exhausts the stack here or in whoever walks the tree.

use regex::{Regex, RegexBuilder};

use super::ast::{Arithmetic, Kind, Macro, Node, Relation};
use super::functions::{Function, suggestion};
use super::lexer::{Lexer, Token};
use super::{ExprError, MAX_NESTING};
use crate::Value;

/// Memory one compiled pattern may take, in bytes.
const PATTERN_SIZE: usize = 256 * 1024;

const RELATION_LEVEL: u8 = 3;

pub(super) fn parse(text: &str) -> Result<Node, ExprError> {
    let mut lexer = Lexer::new(text, 0);
    let mut tokens = Vec::new();
    loop {
        let (token, offset) = lexer.next()?;
        let last = token == Token::End;
        tokens.push((token, offset));
        if last {
            break;
        }
    }
    if tokens.len() == 1 {
        return Err(ExprError::new("expression is empty", 0));
    }
    let mut parser = Parser {
        tokens,
        at: 0,
        depth: 0,
    };
    let root = parser.expression()?;
    match parser.peek() {
        Token::End => Ok(root),
        found => Err(parser.after_expression(found)),
    }
}

#[derive(Clone, Copy)]
enum Operator {
    Or,
    And,
    Relation(Relation),
    Arithmetic(Arithmetic),
}

impl Operator {
    fn of(token: &Token) -> Option<Self> {
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

    fn level(self) -> u8 {
        match self {
            Self::Or => 1,
            Self::And => 2,
            Self::Relation(_) => RELATION_LEVEL,
            Self::Arithmetic(Arithmetic::Add | Arithmetic::Subtract) => 4,
            Self::Arithmetic(Arithmetic::Multiply | Arithmetic::Divide | Arithmetic::Remainder) => 5,
        }
    }
}

struct Parser {
    tokens: Vec<(Token, usize)>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].0
    }

    fn offset(&self) -> usize {
        self.tokens[self.at].1
    }

    fn advance(&mut self) -> Token {
        let token = self.peek().clone();
        // The last token is `End`, which is never passed.
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn eat(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Token::Sign(here) if *here == sign);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, sign: &str, why: &str) -> Result<(), ExprError> {
        if self.eat(sign) {
            return Ok(());
        }
        let found = self.peek().described();
        Err(ExprError::new(
            format!("expected `{sign}` {why}, found {found}"),
            self.offset(),
        ))
    }

    fn deeper(&mut self) -> Result<(), ExprError> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            Err(too_deep(self.offset()))
        } else {
            Ok(())
        }
    }

    fn expression(&mut self) -> Result<Node, ExprError> {
        self.deeper()?;
        let offset = self.offset();
        let mut node = self.binary(1)?;
        if self.eat("?") {
            let then = self.expression()?;
            self.expect(":", "of the conditional")?;
            let otherwise = self.expression()?;
            let (condition, then, otherwise) = (Box::new(node), Box::new(then), Box::new(otherwise));
            node = build(
                Kind::Conditional {
                    condition,
                    then,
                    otherwise,
                },
                offset,
            )?;
        }
        self.depth -= 1;
        Ok(node)
    }

    fn binary(&mut self, lowest: u8) -> Result<Node, ExprError> {
        let mut left = self.unary()?;
        while let Some(operator) = Operator::of(self.peek()) {
            if operator.level() < lowest {
                break;
            }
            self.advance();
            let right = self.binary(operator.level() + 1)?;
            left = combine(left, operator, right)?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Node, ExprError> {
        let offset = self.offset();
        let sign = self.peek().sign_or_word().to_owned();
        if !matches!(sign.as_str(), "!" | "-" | "not") {
            return self.postfix();
        }
        self.deeper()?;
        self.advance();
        // The word binds as people read it: `not a == b` is `!(a == b)`, while `!` holds only what follows it.
        let operand = if sign == "not" {
            self.binary(RELATION_LEVEL)?
        } else {
            self.unary()?
        };
        self.depth -= 1;
        match (sign.as_str(), operand.kind) {
            ("-", Kind::Literal(Value::Number(number))) => {
                build(Kind::Literal(Value::Number(-number)), offset)
            }
            ("-", kind) => build(Kind::Negate(Box::new(Node { kind, ..operand })), offset),
            (_, kind) => build(Kind::Not(Box::new(Node { kind, ..operand })), offset),
        }
    }

    fn postfix(&mut self) -> Result<Node, ExprError> {
        let mut node = self.primary()?;
        loop {
            let offset = node.offset;
            if self.eat(".") {
                let name_at = self.offset();
                let Token::Word(name) = self.advance() else {
                    return Err(ExprError::new(
                        "expected a field or method name after `.`",
                        name_at,
                    ));
                };
                node = if self.eat("(") {
                    self.method(node, &name, name_at)?
                } else {
                    build(
                        Kind::Select {
                            from: Box::new(node),
                            field: name,
                        },
                        offset,
                    )?
                };
            } else if self.eat("[") {
                let index = Box::new(self.expression()?);
                self.expect("]", "after the index")?;
                node = build(
                    Kind::Index {
                        from: Box::new(node),
                        index,
                    },
                    offset,
                )?;
            } else {
                return Ok(node);
            }
        }
    }

    fn primary(&mut self) -> Result<Node, ExprError> {
        let offset = self.offset();
        match self.advance() {
            Token::Number(number) => build(Kind::Literal(Value::Number(number)), offset),
            Token::Text(text) => build(Kind::Literal(Value::String(text)), offset),
            Token::Word(word) => self.word(word, offset),
            Token::Sign("(") => {
                let inner = self.expression()?;
                self.expect(")", "to close the parenthesis")?;
                Ok(inner)
            }
            Token::Sign("[") => {
                let items = self.items("]")?;
                build(Kind::List(items), offset)
            }
            Token::Sign("{") => self.map(offset),
            found => Err(ExprError::new(
                format!("expected a value, found {}", found.described()),
                offset,
            )),
        }
    }

    fn word(&mut self, word: String, offset: usize) -> Result<Node, ExprError> {
        let literal = match word.as_str() {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "null" => Value::Null,
            "and" | "or" | "not" | "eq" | "ne" | "in" => {
                return Err(ExprError::new(
                    format!("expected a value, found the operator `{word}`"),
                    offset,
                ));
            }
            _ if self.eat("(") => return self.call(&word, offset),
            _ => return build(Kind::Name(word), offset),
        };
        build(Kind::Literal(literal), offset)
    }

    /// Expressions up to the closing sign; a trailing comma is fine.
    fn items(&mut self, close: &str) -> Result<Vec<Node>, ExprError> {
        let mut items = Vec::new();
        loop {
            if self.eat(close) {
                return Ok(items);
            }
            items.push(self.expression()?);
            if self.eat(close) {
                return Ok(items);
            }
            self.expect(",", &format!("or `{close}`"))?;
        }
    }

    fn map(&mut self, offset: usize) -> Result<Node, ExprError> {
        let mut entries = Vec::new();
        while !self.eat("}") {
            let key = self.expression()?;
            self.expect(":", "after the key")?;
            entries.push((key, self.expression()?));
            if self.eat("}") {
                break;
            }
            self.expect(",", "or `}`")?;
        }
        build(Kind::Map(entries), offset)
    }

    fn call(&mut self, name: &str, offset: usize) -> Result<Node, ExprError> {
        let args = self.items(")")?;
        if name == "has" {
            return has(args, offset);
        }
        if Macro::named(name).is_some() {
            return Err(ExprError::new(format!("`{name}` is a method of lists"), offset)
                .hint(format!("write `items.{name}(item, …)`")));
        }
        call(name, offset, args, offset)
    }

    fn method(&mut self, receiver: Node, name: &str, name_at: usize) -> Result<Node, ExprError> {
        let mut args = self.items(")")?;
        if let Some(kind) = Macro::named(name) {
            return expand(kind, name, name_at, receiver, args);
        }
        let offset = receiver.offset;
        args.insert(0, receiver);
        call(name, name_at, args, offset)
    }

    fn after_expression(&self, found: &Token) -> ExprError {
        let message = format!("unexpected {} after the expression", found.described());
        let error = ExprError::new(message, self.offset());
        match found.sign_or_word() {
            "not" => error.hint("`not` stands before what it negates: `not (a in b)`"),
            "}" => error.hint("one `${…}` holds the whole expression"),
            "gt" | "ge" | "lt" | "le" => error.hint("write `>`, `>=`, `<` or `<=`"),
            "is" => error.hint("equality is `==`"),
            _ => error,
        }
    }
}

fn combine(left: Node, operator: Operator, right: Node) -> Result<Node, ExprError> {
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

fn build(kind: Kind, offset: usize) -> Result<Node, ExprError> {
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

fn has(mut args: Vec<Node>, offset: usize) -> Result<Node, ExprError> {
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

fn call(name: &str, name_at: usize, args: Vec<Node>, offset: usize) -> Result<Node, ExprError> {
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

fn expand(kind: Macro, name: &str, name_at: usize, over: Node, args: Vec<Node>) -> Result<Node, ExprError> {
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

fn too_deep(offset: usize) -> ExprError {
    ExprError::new(
        format!("expression nests deeper than {MAX_NESTING} levels"),
        offset,
    )
}
