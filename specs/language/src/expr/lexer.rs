//! Words, numbers, strings and signs with their places. It reads one token at a time, because a template asks
//! it where an embedded expression ends.

use rust_decimal::Decimal;

use super::ExprError;
use crate::value::parse_number;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    Number(Decimal),
    Text(String),
    Word(String),
    Sign(&'static str),
    End,
}

impl Token {
    /// The sign or the word; empty for everything else.
    pub(crate) fn sign_or_word(&self) -> &str {
        match self {
            Self::Sign(sign) => sign,
            Self::Word(word) => word,
            Self::Number(_) | Self::Text(_) | Self::End => "",
        }
    }

    pub(crate) fn described(&self) -> String {
        match self {
            Self::Number(_) => "a number".to_owned(),
            Self::Text(_) => "a string".to_owned(),
            Self::Word(word) => format!("`{word}`"),
            Self::Sign(sign) => format!("`{sign}`"),
            Self::End => "the end".to_owned(),
        }
    }
}

/// Longer signs first.
const SIGNS: &[&str] = &[
    "&&", "||", "==", "!=", "<=", ">=", "(", ")", "[", "]", "{", "}", ",", ".", ":", "?", "+", "-", "*", "/",
    "%", "<", ">", "!",
];

pub(crate) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a str, at: usize) -> Self {
        Self { text, at }
    }

    /// The next token and where it begins; after the last one, `End` for ever.
    pub(crate) fn next(&mut self) -> Result<(Token, usize), ExprError> {
        self.space();
        let start = self.at;
        let rest = &self.text[start..];
        let Some(first) = rest.chars().next() else {
            return Ok((Token::End, start));
        };
        if first.is_ascii_digit() {
            return Ok((Token::Number(self.number()?), start));
        }
        if first == '\'' || first == '"' {
            return Ok((Token::Text(self.string(false)?), start));
        }
        if first.is_ascii_alphabetic() || first == '_' {
            return self.word(start);
        }
        if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            self.at += sign.len();
            return Ok((Token::Sign(sign), start));
        }
        Err(unexpected(first, start))
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        loop {
            let trimmed = self.rest().trim_start();
            self.at = self.text.len() - trimmed.len();
            if !trimmed.starts_with("//") {
                return;
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    fn take_while(&mut self, keep: fn(u8) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.bytes().position(|byte| !keep(byte)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn word(&mut self, start: usize) -> Result<(Token, usize), ExprError> {
        let word = self.take_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let quoted = self.rest().starts_with(['\'', '"']);
        match word {
            "r" | "R" if quoted => Ok((Token::Text(self.string(true)?), start)),
            "b" | "B" | "rb" | "br" if quoted => Err(ExprError::new("byte strings are not supported", start)),
            _ => Ok((Token::Word(word.to_owned()), start)),
        }
    }

    fn number(&mut self) -> Result<Decimal, ExprError> {
        let start = self.at;
        if self.rest().starts_with("0x") || self.rest().starts_with("0X") {
            self.at += 2;
            let digits = self.take_while(|byte| byte.is_ascii_hexdigit());
            let number = u64::from_str_radix(digits, 16)
                .map_err(|_| ExprError::new("hexadecimal number without digits, or beyond 64 bits", start))?;
            self.number_end(start)?;
            return Ok(Decimal::from(number));
        }
        self.take_while(|byte| byte.is_ascii_digit());
        let whole = &self.text[start..self.at];
        if whole.len() > 1 && whole.starts_with('0') {
            return Err(ExprError::new("number with a leading zero", start)
                .hint("identifiers are strings: quote them"));
        }
        if self.rest().starts_with('.') && self.rest()[1..].starts_with(|next: char| next.is_ascii_digit()) {
            self.at += 1;
            self.take_while(|byte| byte.is_ascii_digit());
        }
        if self.rest().starts_with(['e', 'E']) {
            self.at += 1;
            self.at += usize::from(self.rest().starts_with(['+', '-']));
            self.take_while(|byte| byte.is_ascii_digit());
        }
        let text = &self.text[start..self.at];
        let number = parse_number(text).map_err(|error| ExprError::new(error.message, start))?;
        self.number_end(start)?;
        Ok(number)
    }

    fn number_end(&mut self, start: usize) -> Result<(), ExprError> {
        self.at += usize::from(self.rest().starts_with(['u', 'U']));
        if self
            .rest()
            .starts_with(|next: char| next.is_ascii_alphanumeric() || next == '_')
        {
            return Err(ExprError::new("a name cannot begin with a digit", start)
                .hint("durations are text: duration('15m')"));
        }
        Ok(())
    }

    fn string(&mut self, raw: bool) -> Result<String, ExprError> {
        let open = self.at;
        let rest = self.rest();
        let triple = rest.starts_with("'''") || rest.starts_with("\"\"\"");
        let close = &rest[..if triple { 3 } else { 1 }];
        self.at += close.len();
        let mut out = String::new();
        loop {
            let rest = self.rest();
            if rest.starts_with(close) {
                self.at += close.len();
                return Ok(out);
            }
            match rest.chars().next() {
                Some('\\') if !raw => out.push(self.escape()?),
                Some('\n' | '\r') if !triple => return Err(ExprError::new("string is not closed", open)),
                Some(letter) => {
                    out.push(letter);
                    self.at += letter.len_utf8();
                }
                None => return Err(ExprError::new("string is not closed", open)),
            }
        }
    }

    fn escape(&mut self) -> Result<char, ExprError> {
        let start = self.at;
        let letter = self.rest()[1..].chars().next();
        self.at += 1 + letter.map_or(0, char::len_utf8);
        Ok(match letter {
            Some('a') => '\u{7}',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\u{b}',
            Some(same @ ('\\' | '?' | '"' | '\'' | '`')) => same,
            Some('x' | 'X') => return self.code(start, 2, 16),
            Some('u') => return self.code(start, 4, 16),
            Some('U') => return self.code(start, 8, 16),
            Some('0'..='3') => {
                self.at -= 1;
                return self.code(start, 3, 8);
            }
            _ => return Err(ExprError::new("unknown escape", start).hint("a backslash itself is `\\\\`")),
        })
    }

    fn code(&mut self, start: usize, length: usize, radix: u32) -> Result<char, ExprError> {
        let digits = self.rest().get(..length).unwrap_or("");
        self.at += digits.len();
        let valid = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let code = if valid {
            u32::from_str_radix(digits, radix).ok()
        } else {
            None
        };
        code.and_then(char::from_u32)
            .ok_or_else(|| ExprError::new("escape names no character", start))
    }
}

fn unexpected(letter: char, offset: usize) -> ExprError {
    let error = ExprError::new(format!("unexpected `{}`", letter.escape_debug()), offset);
    match letter {
        '=' => error.hint("equality is `==`"),
        '&' => error.hint("write `&&` or `and`"),
        '|' => error.hint("write `||` or `or`"),
        '$' => error.hint("inside an expression a name stands bare, without `${`"),
        '“' | '”' | '‘' | '’' => error.hint("use straight quotes"),
        _ => error,
    }
}
