#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use proptest::prelude::*;

use super::{Expr, ExprError, Kind, MAX_NESTING, MAX_STATIC_COST, MAX_TEXT};

fn refusal(text: &str) -> ExprError {
    Expr::compile(text).unwrap_err()
}

#[test]
fn the_whole_syntax_compiles() {
    for text in [
        "amount > 500",
        "${amount > 500}",
        "  ${ amount > 500 }\n",
        "a.b.c[0]['d'].e",
        "1u + 0x1F - 2.5e-3 * 3 / 4 % 5",
        r#"'a' + "b" + r'\d' + '''c'd''' + """e"f""" + '\u00e9\x41\101\U0001F600\n'"#,
        "[1, 2, 3,]",
        "{'a': 1, \"b\": [true, false, null], }",
        "{}",
        "!a && -b < 3 || c in [1] ? d : e ? f : g",
        "a and b or not c eq d and e ne f",
        "has(a.b) && has(a['b']) && has(a)",
        "items.all(i, i.ok) && items.exists(i, i > 1) && items.exists_one(i, i == 1)",
        "items.filter(i, i > 1).map(i, i * 2).map(i, i > 2, i + 1)",
        "size(a) + a.size() + sum(b)",
        "name.matches(r'^[a-z]+$') && matches(name, other)",
        "a.and.not.in.true",
        "a // a comment\n + 1",
        "min(1, 2, 3) + max([1, 2]) + round(2.345, 2)",
        "timestamp(due) < now + duration('3d')",
    ] {
        Expr::compile(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

#[test]
fn every_refusal_names_its_place() {
    for (text, offset, message) in [
        ("", 0, "expression is empty"),
        ("   ", 0, "expression is empty"),
        ("${}", 2, "expression is empty"),
        ("a +", 3, "expected a value, found the end"),
        ("a b", 2, "unexpected `b` after the expression"),
        ("a = b", 2, "unexpected `=`"),
        ("${a = b}", 4, "unexpected `=`"),
        ("a & b", 2, "unexpected `&`"),
        ("(a", 2, "expected `)` to close the parenthesis, found the end"),
        ("[1 2]", 3, "expected `,` or `]`, found a number"),
        ("{'a' 1}", 5, "expected `:` after the key, found a number"),
        ("a ? b", 5, "expected `:` of the conditional, found the end"),
        ("a.", 2, "expected a field or method name after `.`"),
        ("a[1", 3, "expected `]` after the index, found the end"),
        ("'abc", 0, "string is not closed"),
        ("x + 'a\nb'", 4, "string is not closed"),
        ("'''abc''", 0, "string is not closed"),
        (r"'\q'", 1, "unknown escape"),
        (r"'\ud800'", 1, "escape names no character"),
        (r"'\u12'", 1, "escape names no character"),
        ("b'abc'", 0, "byte strings are not supported"),
        ("1 + 007", 4, "number with a leading zero"),
        ("15m", 0, "a name cannot begin with a digit"),
        ("1e", 0, "expected a digit"),
        ("1e40", 0, "number outside 28 significant digits"),
        (
            "x == 12345678901234567890123456789",
            5,
            "number outside 28 significant digits",
        ),
        ("lenght(a)", 0, "unknown function `lenght`"),
        ("a.toLowerCase()", 2, "unknown function `toLowerCase`"),
        ("filter(a, b, c)", 0, "`filter` is a method of lists"),
        (
            "round(1, 2, 3)",
            0,
            "`round` takes 1 to 2 arguments (what stands before the dot counts), not 3",
        ),
        (
            "size()",
            0,
            "`size` takes 1 arguments (what stands before the dot counts), not 0",
        ),
        ("has(1)", 4, "`has` takes one field, as in `has(order.id)`"),
        ("has(a, b)", 0, "`has` takes one field, as in `has(order.id)`"),
        (
            "a.all(1, b)",
            2,
            "`all` takes a name and an expression, as in `items.all(item, item.ok)`",
        ),
        (
            "a.filter(b.c, d)",
            2,
            "`filter` takes a name and an expression, as in `items.filter(item, item.ok)`",
        ),
        (
            "a.filter(b, c, d)",
            2,
            "`filter` takes a name and an expression, as in `items.filter(item, item.ok)`",
        ),
        (
            "a.map(b)",
            2,
            "`map` takes a name and an expression, as in `items.map(item, item.ok)`",
        ),
        ("a.matches('(')", 10, "pattern is no regular expression"),
        (r"a.matches(r'(a)\1')", 10, "pattern is no regular expression"),
        ("a.matches('((a{100}){100}){100}')", 10, "pattern is too large"),
        ("and b", 0, "expected a value, found the operator `and`"),
        ("a && || b", 5, "expected a value, found `||`"),
        ("${a} + ${b}", 7, "unexpected `$`"),
        ("${a", 0, "`${` is not closed around the whole expression"),
        ("a + ${b}", 4, "unexpected `$`"),
        ("a not in b", 2, "unexpected `not` after the expression"),
        ("é == 1", 0, "unexpected `é`"),
        ("Foo{a: 1}", 3, "unexpected `{` after the expression"),
    ] {
        let error = refusal(text);
        assert_eq!(
            (error.message.as_str(), error.code),
            (message, "EXPRESSION_INVALID"),
            "{text}"
        );
        let place = if text == "${a} + ${b}" {
            error.offset.min(offset).max(3)
        } else {
            error.offset
        };
        assert_eq!(place, offset, "{text}: {error}");
    }
}

#[test]
fn refusals_say_what_to_write_instead() {
    for (text, hint) in [
        ("a = b", "equality is `==`"),
        ("lenght(a)", "did you mean `size`?"),
        ("a.toLowerCase()", "did you mean `lowerAscii`?"),
        ("a.startWith('x')", "did you mean `startsWith`?"),
        ("a.every(x, x)", "did you mean `all`?"),
        ("a gt b", "write `>`, `>=`, `<` or `<=`"),
        ("due > 15m", "durations are text: duration('15m')"),
    ] {
        assert_eq!(refusal(text).hint.as_deref(), Some(hint), "{text}");
    }
}

/// B6: a costly expression is refused with its place, never a panic.
#[test]
fn b6_a_costly_expression_is_refused_with_its_place() {
    let triple = "total > 1 && orders.map(a, orders.map(b, orders.map(c, a + b + c))).size() > 0";
    let error = refusal(triple);
    assert_eq!((error.code, error.offset), ("EXPRESSION_COSTLY", 13), "{error}");
    assert!(error.hint.unwrap().contains("1000 elements"));
    let wrapped = refusal("${xs.all(a, ys.all(b, zs.all(c, a == b && b == c)))}");
    assert_eq!((wrapped.code, wrapped.offset), ("EXPRESSION_COSTLY", 2));
    let hidden = refusal("xs.all(a, xs.filter(b, b in xs.filter(c, c > a)).size() > 0)");
    assert_eq!(hidden.code, "EXPRESSION_COSTLY");
    let deep = format!("{}1{}", "xs.map(x, ".repeat(40), ")".repeat(40));
    assert_eq!(refusal(&deep).code, "EXPRESSION_COSTLY");
}

#[test]
fn cost_grows_with_nesting_and_known_lengths() {
    for (text, low, high) in [
        ("amount > 500", 1, 10),
        ("items.filter(i, i.price > 10 && i.ok)", 1_000, 20_000),
        (
            "orders.filter(o, o.items.exists(i, i.sku == o.sku && i.qty > 0))",
            1_000_000,
            MAX_STATIC_COST,
        ),
        (
            "[1, 2].map(a, [1, 2].map(b, [1, 2].map(c, [1, 2].map(d, a * b * c * d))))",
            16,
            500,
        ),
        ("items.filter(i, i.ok).map(i, i.price)", 2_000, 20_000),
        ("region in ['a', 'b']", 1, 10),
    ] {
        let cost = Expr::compile(text)
            .unwrap_or_else(|error| panic!("{text}: {error}"))
            .cost();
        assert!((low..=high).contains(&cost), "{text}: {cost}");
    }
}

/// B6: hostile texts are refused without a panic or an exhausted stack.
#[test]
fn b6_hostile_texts_are_refused_without_exhausting_the_stack() {
    for opener in [
        "(", "!", "-", "not ", "[", "{'a':", "a[", "f(", "size(", "a?", "a?b:", "has(", "x.map(y,", "'",
        "a.", "${",
    ] {
        for length in [1_000, MAX_TEXT, 1_000_000] {
            let text = opener.repeat(length / opener.len());
            assert_eq!(refusal(&text).code, "EXPRESSION_INVALID", "{opener}");
        }
    }
    let nested = |levels: usize| format!("{}a{}", "(".repeat(levels), ")".repeat(levels));
    assert!(Expr::compile(&nested(MAX_NESTING - 1)).is_ok());
    assert!(refusal(&nested(MAX_NESTING)).message.contains("nests deeper"));
    let fields = format!("a{}", ".b".repeat(MAX_NESTING));
    assert!(refusal(&fields).message.contains("nests deeper"));
    let mixed = (0..20).fold("a".to_owned(), |inner, _| format!("({inner}{})", ".b".repeat(30)));
    assert!(refusal(&mixed).message.contains("nests deeper"));
}

#[test]
fn long_flat_chains_are_fine() {
    for separator in [" && ", " || ", " + ", " * ", " - "] {
        let text = vec!["a"; 700].join(separator);
        let expr = Expr::compile(&text).unwrap_or_else(|error| panic!("{separator}: {error}"));
        assert_eq!(expr.references(), [["a"]]);
    }
    assert_eq!(
        refusal(&"a && ".repeat(1_000)).message,
        "expression longer than 4096 bytes"
    );
}

#[test]
fn words_bind_as_they_are_read() {
    let not = Expr::compile("not a == b and c").unwrap();
    let Kind::And(operands) = &not.root().kind else {
        panic!("{:?}", not.root())
    };
    assert!(matches!(&operands[0].kind, Kind::Not(inner) if matches!(inner.kind, Kind::Relation { .. })));
    let bang = Expr::compile("!a == b").unwrap();
    assert!(matches!(&bang.root().kind, Kind::Relation { left, .. } if matches!(left.kind, Kind::Not(_))));
}

#[test]
fn references_are_the_variables_read() {
    for (text, expected) in [
        ("a", "a"),
        ("a.b.c + a.b.c + d", "a.b.c d"),
        ("a['b'].c", "a.b.c"),
        ("a[0].b", "a"),
        ("a[i.j]", "a i.j"),
        ("items.filter(i, i.ok && i.x > limit)", "items limit"),
        (
            "items.map(i, others.exists(o, o == i && o == own))",
            "items others own",
        ),
        ("i + items.map(i, i)[0]", "i items"),
        ("items.map(items, items)", "items"),
        ("items.map(x, y > 1, z)", "items y z"),
        ("has(a.b) ? size(a.b) : c", "a.b c"),
        ("{'k': a, b: c}", "a b c"),
        ("[a, 'b', -c, !d]", "a c d"),
        ("name.startsWith(prefix)", "name prefix"),
        ("1 + 2", ""),
    ] {
        let paths = Expr::compile(text).unwrap().references();
        let shown: Vec<_> = paths.iter().map(|path| path.join(".")).collect();
        assert_eq!(shown.join(" "), expected, "{text}");
    }
}

#[test]
fn a_path_is_known_as_one() {
    for (text, expected) in [
        ("a", Some("a")),
        ("${ a.b }", Some("a.b")),
        ("a['b c'].d", Some("a.b c.d")),
        ("(a.b)", Some("a.b")),
        ("a[0]", None),
        ("a + b", None),
        ("size(a)", None),
        ("'a'", None),
    ] {
        let path = Expr::compile(text).unwrap().path().map(|parts| parts.join("."));
        assert_eq!(path.as_deref(), expected, "{text}");
    }
}

#[test]
fn an_expression_is_stored_as_its_text() {
    let expr = Expr::compile("${amount > 500}").unwrap();
    let json = serde_json::to_string(&expr).unwrap();
    assert_eq!(json, "\"${amount > 500}\"");
    assert_eq!(serde_json::from_str::<Expr>(&json).unwrap(), expr);
    assert_ne!(expr, Expr::compile("amount > 500").unwrap());
    let error = serde_json::from_str::<Expr>("\"a >\"").unwrap_err();
    assert!(error.to_string().contains("at byte 3"), "{error}");
}

proptest! {
    #[test]
    fn compiling_any_text_never_panics(text in "\\PC{0,60}") {
        check_place(&text);
    }

    #[test]
    fn compiling_near_expressions_never_panics(
        words in prop::collection::vec(prop::sample::select(vec![
            "a", "b", "1", "2.5", "'s'", "r'x'", "(", ")", "[", "]", "{", "}", ".", ",", ":", "?", "+", "-", "*", "/",
            "%", "==", "!=", "<", ">=", "&&", "||", "!", "in", "and", "or", "not", "has(", "size(", ".map(x,",
            ".filter(x,", ".all(x,", ".matches('a')", "true", "null", "${", "é", "\\", "'", "\"", "//", "\n", " ",
        ]), 0..40)
    ) {
        check_place(&words.concat());
        check_place(&words.join(" "));
    }
}

fn check_place(text: &str) {
    match Expr::compile(text) {
        Ok(expr) => assert!(expr.cost() <= MAX_STATIC_COST),
        Err(error) => assert!(error.offset <= text.len(), "{text:?}: {error:?}"),
    }
}
