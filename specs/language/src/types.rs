//! Types of variables, enforced wherever values enter: a start, a delegation, a call, the outputs at an end.
//! One function, so that the sender of a value never matters. No value is ever coerced, and no message holds one.

#[cfg(feature = "schemas")]
mod schemas;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::Value;
use crate::duration;
use crate::model::{Declaration, Type};

#[cfg(feature = "schemas")]
pub use schemas::JsonSchemas;

/// Checks a value against a JSON Schema (2020-12). A trait because the schema library is heavy: the engine brings
/// `JsonSchemas`, and a build without the feature `schemas` can still check plain types with [`NoSchemas`].
pub trait SchemaCheck {
    /// What is wrong, one text per error; empty when the value fits. Texts name the pointer, never the value.
    fn errors(&self, schema: &Value, value: &Value) -> Vec<String>;
}

/// Accepts everything: for checks where no declaration carries a schema.
pub struct NoSchemas;

impl SchemaCheck for NoSchemas {
    fn errors(&self, _: &Value, _: &Value) -> Vec<String> {
        Vec::new()
    }
}

/// Why a value is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// `missing-param`
    MissingParam,
    /// `invalid-param`
    InvalidParam,
}

impl Reason {
    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MissingParam => "missing-param",
            Self::InvalidParam => "invalid-param",
        }
    }
}

/// The first thing that is wrong with some inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeProblem {
    pub reason: Reason,
    /// The name of the variable.
    pub argument: String,
    /// Lower case, without the value.
    pub message: String,
}

impl std::fmt::Display for TypeProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for TypeProblem {}

/// Checks one value against its declaration: type, `nullable`, `enum`, `schema`.
///
/// # Errors
/// `invalid-param`, naming the variable and what was expected.
pub fn check(declaration: &Declaration, value: &Value, schemas: &dyn SchemaCheck) -> Result<(), TypeProblem> {
    let name = &declaration.name;
    if value.is_null() {
        if declaration.nullable || declaration.kind == Type::Any {
            return Ok(());
        }
        return Err(invalid(
            name,
            format!("`{name}` must be {}, not null", expected(declaration.kind)),
        ));
    }
    if !fits(declaration.kind, value) {
        return Err(invalid(
            name,
            format!(
                "`{name}` must be {}, not {}",
                expected(declaration.kind),
                found(value)
            ),
        ));
    }
    if let Some(choices) = &declaration.choices
        && !choices.contains(value)
    {
        let list: Vec<String> = choices.iter().map(Value::to_json).collect();
        return Err(invalid(
            name,
            format!("`{name}` must be one of {}", list.join(", ")),
        ));
    }
    if let Some(schema) = &declaration.schema {
        let errors = schemas.errors(schema, value);
        if !errors.is_empty() {
            return Err(invalid(
                name,
                format!("`{name}` does not fit its schema: {}", errors.join("; ")),
            ));
        }
    }
    Ok(())
}

/// Checks the inputs of a start, whoever starts, and answers the variables the instance begins with: what was
/// given, and the defaults of inputs and working variables. Missing comes before mistyped, then unknown names.
///
/// # Errors
/// The first problem: `missing-param`, or `invalid-param` for a wrong type or an unknown name.
pub fn check_inputs(
    declarations: &[Declaration],
    given: &BTreeMap<String, Value>,
    schemas: &dyn SchemaCheck,
) -> Result<BTreeMap<String, Value>, TypeProblem> {
    let inputs = || declarations.iter().filter(|declaration| declaration.input);
    for declaration in inputs() {
        let name = &declaration.name;
        if declaration.required && declaration.default.is_none() && !given.contains_key(name) {
            return Err(TypeProblem {
                reason: Reason::MissingParam,
                argument: name.clone(),
                message: format!("`{name}` ({}) is missing", expected(declaration.kind)),
            });
        }
    }
    for declaration in inputs() {
        if let Some(value) = given.get(&declaration.name) {
            check(declaration, value, schemas)?;
        }
    }
    for name in given.keys() {
        if !inputs().any(|declaration| declaration.name == *name) {
            return Err(invalid(
                name,
                format!("`{name}` is not an input{}", input_names(inputs())),
            ));
        }
    }
    let mut variables = given.clone();
    for declaration in declarations {
        if let Some(default) = &declaration.default
            && !variables.contains_key(&declaration.name)
        {
            variables.insert(declaration.name.clone(), default.clone());
        }
    }
    Ok(variables)
}

fn input_names<'a>(inputs: impl Iterator<Item = &'a Declaration>) -> String {
    let names: Vec<&str> = inputs.map(|declaration| declaration.name.as_str()).collect();
    if names.is_empty() {
        "; there are none".to_owned()
    } else {
        format!("; the inputs are {}", names.join(", "))
    }
}

fn invalid(name: &str, message: String) -> TypeProblem {
    TypeProblem {
        reason: Reason::InvalidParam,
        argument: name.to_owned(),
        message,
    }
}

/// Whether a value is of this type. `null` is of type `any` alone.
#[must_use]
pub fn fits(kind: Type, value: &Value) -> bool {
    match kind {
        Type::Any => true,
        Type::String => value.as_str().is_some(),
        Type::Integer => value.as_decimal().is_some_and(|number| number.is_integer()),
        Type::Number => value.as_decimal().is_some(),
        Type::Boolean => value.as_bool().is_some(),
        Type::Date => value.as_str().is_some_and(is_date),
        Type::DateTime => value.as_str().is_some_and(is_date_time),
        Type::Duration => value
            .as_str()
            .is_some_and(|text| duration::parse_ms(text).is_ok()),
        Type::Object | Type::File => value.as_map().is_some(),
        Type::List => value.as_list().is_some(),
    }
}

/// What a type asks for, in words.
#[must_use]
pub const fn expected(kind: Type) -> &'static str {
    match kind {
        Type::String => "a string",
        Type::Integer => "an integer",
        Type::Number => "a number",
        Type::Boolean => "a boolean",
        Type::Date => "a date such as 2026-01-31",
        Type::DateTime => "a date-time such as 2026-01-31T12:00:00Z",
        Type::Duration => "a duration such as PT15M or 15m",
        Type::Object => "an object",
        Type::List => "a list",
        Type::File => "a file",
        Type::Any => "any value",
    }
}

fn found(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "this string",
        Value::List(_) => "a list",
        Value::Map(_) => "an object",
    }
}

/// `2026-01-31`, a day that exists.
#[must_use]
pub fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return false;
    }
    let (Some(year), Some(month), Some(day)) = (digits(text, 0, 4), digits(text, 5, 7), digits(text, 8, 10))
    else {
        return false;
    };
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// RFC 3339 with an offset, `T` between date and time.
#[must_use]
pub fn is_date_time(text: &str) -> bool {
    let (Some(date), Some(rest)) = (text.get(..10), text.get(10..)) else {
        return false;
    };
    let Some(time) = rest.strip_prefix('T') else {
        return false;
    };
    let Some(offset_at) = time.find(['Z', '+', '-']) else {
        return false;
    };
    let (clock, offset) = time.split_at(offset_at);
    let (clock, fraction) = clock
        .split_once('.')
        .map_or((clock, "0"), |(clock, fraction)| (clock, fraction));
    let clock_is_good = clock.len() == 8
        && clock.as_bytes()[2] == b':'
        && clock.as_bytes()[5] == b':'
        && digits(clock, 0, 2).is_some_and(|hour| hour < 24)
        && digits(clock, 3, 5).is_some_and(|minute| minute < 60)
        && digits(clock, 6, 8).is_some_and(|second| second <= 60);
    let fraction_is_good =
        !fraction.is_empty() && fraction.len() <= 9 && fraction.bytes().all(|b| b.is_ascii_digit());
    let offset_is_good = offset == "Z"
        || (offset.len() == 6
            && offset.as_bytes()[3] == b':'
            && digits(offset, 1, 3).is_some_and(|hour| hour < 24)
            && digits(offset, 4, 6).is_some_and(|minute| minute < 60));
    is_date(date) && clock_is_good && fraction_is_good && offset_is_good
}

fn digits(text: &str, from: usize, to: usize) -> Option<u32> {
    let part = text.get(from..to)?;
    if part.bytes().all(|b| b.is_ascii_digit()) {
        part.parse().ok()
    } else {
        None
    }
}
