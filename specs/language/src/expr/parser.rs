//! From text to tree: precedence climbing over tokens read in advance. Every way down counts its depth, and
//! every node its height, so that no input exhausts the stack here or in whoever walks the tree.

use super::ast::{Kind, Macro, Node};
use super::build::{Operator, RELATION_LEVEL, build, call, combine, expand, has, too_deep};
use super::lexer::{Lexer, Token};
use super::{ExprError, MAX_NESTING};
use crate::Value;

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
