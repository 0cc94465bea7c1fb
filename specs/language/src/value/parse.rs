//! Reading JSON text. Our own reader, because the usual ones round numbers and let the last duplicate key win.

use std::collections::BTreeMap;
use std::fmt;

use rust_decimal::Decimal;

use super::Value;

/// Lists and objects may stand this deep inside one another.
pub const MAX_DEPTH: usize = 128;

const MAX_DIGITS: usize = 28;
const MAX_SCALE: i64 = 28;

/// Why a text is no acceptable JSON, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// `JSON_INVALID` or `NUMBER_RANGE`.
    pub code: &'static str,
    /// What is wrong; never quotes a value.
    pub message: String,
    /// Byte offset in the text; 0 when the source was no text.
    pub offset: usize,
}

impl JsonError {
    /// The code of a number outside 28 significant digits.
    pub const NUMBER_RANGE: &'static str = "NUMBER_RANGE";
    /// The code of everything else that is no JSON.
    pub const INVALID: &'static str = "JSON_INVALID";

    pub(super) fn invalid(message: impl Into<String>, offset: usize) -> Self {
        Self {
            code: Self::INVALID,
            message: message.into(),
            offset,
        }
    }

    pub(super) fn range(offset: usize) -> Self {
        let message = "number outside 28 significant digits".to_owned();
        Self {
            code: Self::NUMBER_RANGE,
            message,
            offset,
        }
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {} ({})", self.message, self.offset, self.code)
    }
}

impl std::error::Error for JsonError {}

/// Reads a number in JSON's notation exactly; exponents are fine when the result is exact.
///
/// # Errors
/// `JSON_INVALID` when it is no JSON number, `NUMBER_RANGE` outside 28 significant digits.
pub fn parse_number(text: &str) -> Result<Decimal, JsonError> {
    let mut reader = Reader {
        text,
        bytes: text.as_bytes(),
        at: 0,
    };
    let number = reader.number()?;
    if reader.at < text.len() {
        return Err(JsonError::invalid("unexpected text after the number", reader.at));
    }
    Ok(number)
}

pub(super) fn parse(text: &str) -> Result<Value, JsonError> {
    let mut reader = Reader {
        text,
        bytes: text.as_bytes(),
        at: 0,
    };
    reader.space();
    let value = reader.value(0)?;
    reader.space();
    if reader.at < text.len() {
        return Err(JsonError::invalid("unexpected text after the value", reader.at));
    }
    Ok(value)
}

struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, JsonError> {
        match self.peek() {
            Some(b'n') => self.word("null", Value::Null),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'"') => self.string().map(Value::String),
            Some(b'-' | b'0'..=b'9') => self.number().map(Value::Number),
            Some(b'[' | b'{') if depth == MAX_DEPTH => Err(JsonError::invalid(
                format!("nested deeper than {MAX_DEPTH} levels"),
                self.at,
            )),
            Some(b'[') => self.list(depth + 1),
            Some(b'{') => self.map(depth + 1),
            Some(_) => Err(JsonError::invalid("expected a value", self.at)),
            None => Err(JsonError::invalid("unexpected end of text", self.at)),
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, JsonError> {
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return Err(JsonError::invalid("expected a value", self.at));
        }
        self.at += word.len();
        Ok(value)
    }

    fn list(&mut self, depth: usize) -> Result<Value, JsonError> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.eat(b']') {
            return Ok(Value::List(items));
        }
        loop {
            self.space();
            items.push(self.value(depth)?);
            self.space();
            if self.eat(b']') {
                return Ok(Value::List(items));
            }
            if !self.eat(b',') {
                return Err(JsonError::invalid("expected `,` or `]`", self.at));
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Value, JsonError> {
        self.at += 1;
        let mut entries = BTreeMap::new();
        self.space();
        if self.eat(b'}') {
            return Ok(Value::Map(entries));
        }
        loop {
            self.space();
            let key_at = self.at;
            if self.peek() != Some(b'"') {
                return Err(JsonError::invalid("expected a key in double quotes", self.at));
            }
            let key = self.string()?;
            self.space();
            if !self.eat(b':') {
                return Err(JsonError::invalid("expected `:`", self.at));
            }
            self.space();
            let value = self.value(depth)?;
            if entries.contains_key(&key) {
                return Err(JsonError::invalid("duplicate key", key_at));
            }
            entries.insert(key, value);
            self.space();
            if self.eat(b'}') {
                return Ok(Value::Map(entries));
            }
            if !self.eat(b',') {
                return Err(JsonError::invalid("expected `,` or `}`", self.at));
            }
        }
    }

    fn string(&mut self) -> Result<String, JsonError> {
        let open = self.at;
        self.at += 1;
        let mut out = String::new();
        loop {
            let from = self.at;
            while !matches!(self.peek(), None | Some(b'"' | b'\\' | 0..=0x1f)) {
                self.at += 1;
            }
            out.push_str(&self.text[from..self.at]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => out.push(self.escape()?),
                Some(_) => return Err(JsonError::invalid("control character in a string", self.at)),
                None => return Err(JsonError::invalid("string is not closed", open)),
            }
        }
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        let start = self.at;
        self.at += 1;
        let letter = self.peek();
        self.at += 1;
        Ok(match letter {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(start),
            _ => return Err(JsonError::invalid("unknown escape", start)),
        })
    }

    fn unicode(&mut self, start: usize) -> Result<char, JsonError> {
        let lone = || JsonError::invalid("lone surrogate in a string", start);
        let first = self.hex4(start)?;
        if !(0xd800..0xe000).contains(&first) {
            return char::from_u32(first).ok_or_else(lone);
        }
        if first >= 0xdc00 || !self.eat(b'\\') || !self.eat(b'u') {
            return Err(lone());
        }
        let second = self.hex4(start)?;
        if !(0xdc00..0xe000).contains(&second) {
            return Err(lone());
        }
        char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00)).ok_or_else(lone)
    }

    fn hex4(&mut self, start: usize) -> Result<u32, JsonError> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            code = code * 16 + digit.ok_or_else(|| JsonError::invalid("expected four hex digits", start))?;
            self.at += 1;
        }
        Ok(code)
    }

    fn number(&mut self) -> Result<Decimal, JsonError> {
        let start = self.at;
        let negative = self.eat(b'-');
        let whole = self.digits()?;
        if whole.len() > 1 && whole.starts_with('0') {
            return Err(JsonError::invalid("number with a leading zero", start));
        }
        let fraction = if self.eat(b'.') { self.digits()? } else { "" };
        let mut exponent = 0;
        if self.eat(b'e') || self.eat(b'E') {
            let minus = self.eat(b'-');
            if !minus {
                self.eat(b'+');
            }
            // An exponent of more digits than i64 holds is out of range, whatever the sign.
            let size: i64 = self.digits()?.parse().unwrap_or(i64::MAX / 4);
            exponent = if minus { -size } else { size };
        }
        assemble(negative, whole, fraction, exponent).ok_or_else(|| JsonError::range(start))
    }

    fn digits(&mut self) -> Result<&'a str, JsonError> {
        let from = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if from == self.at {
            return Err(JsonError::invalid("expected a digit", from));
        }
        Ok(&self.text[from..self.at])
    }
}

/// `whole.fraction × 10^exponent`, or nothing when a decimal cannot hold it exactly.
fn assemble(negative: bool, whole: &str, fraction: &str, exponent: i64) -> Option<Decimal> {
    let mut digits = format!("{whole}{fraction}");
    let mut scale = i64::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
    let kept = digits.trim_end_matches('0').len();
    scale -= i64::try_from(digits.len() - kept).ok()?;
    digits.truncate(kept);
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() {
        return Some(Decimal::ZERO);
    }
    if significant.len() > MAX_DIGITS || !(-MAX_SCALE..=MAX_SCALE).contains(&scale) {
        return None;
    }
    let mut mantissa: i128 = significant.parse().ok()?;
    if scale < 0 {
        mantissa = mantissa.checked_mul(10_i128.checked_pow(u32::try_from(-scale).ok()?)?)?;
        scale = 0;
    }
    if mantissa >= 10_i128.pow(28) {
        return None;
    }
    let signed = if negative { -mantissa } else { mantissa };
    Decimal::try_from_i128_with_scale(signed, u32::try_from(scale).ok()?).ok()
}
