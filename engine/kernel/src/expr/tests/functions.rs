//! The functions, one table a group.

use super::{check, check_failures};

#[test]
fn functions_over_texts() {
    check(&[
        ("size(name) + name.size() + empty.size()", "20"),
        ("size(numbers) + size(order)", "7"),
        (
            "name.contains('ße') && name.startsWith('Gr') && name.endsWith('Ada')",
            "true",
        ),
        ("numbers.contains(2)", "true"),
        (
            "name.matches('^Gr.+Ada$') && matches(order.id, r'^ORD-\\d+$')",
            "true",
        ),
        ("name.matches(pattern)", "true"),
        ("'AbÇ'.lowerAscii() + 'abç'.upperAscii()", "\"abÇABç\""),
        ("'  a b '.trim()", "\"a b\""),
        ("'a,b,,c'.split(',')", "[\"a\",\"b\",\"\",\"c\"]"),
        ("'a,b,c'.split(',', 2)", "[\"a\",\"b,c\"]"),
        ("'a,b,c'.split(',', 0)", "[]"),
        ("'a,b,c'.split(',', -1)", "[\"a\",\"b\",\"c\"]"),
        ("'äbc'.split('')", "[\"ä\",\"b\",\"c\"]"),
        ("'äbc'.split('', 2)", "[\"ä\",\"bc\"]"),
        (
            "['a', 'b'].join('-') + ['a', 'b'].join() + [].join(',')",
            "\"a-bab\"",
        ),
        (
            "'aaa'.replace('a', 'b') + 'aaa'.replace('a', 'b', 2) + 'ab'.replace('', '-')",
            "\"bbbbba-a-b-\"",
        ),
        ("name.substring(2, 5) + name.substring(7)", "\"üßeAda\""),
        ("'a' + 'b' == \"ab\"", "true"),
        (
            "string(amount) + string(yes) + string('x') + string([1.0, 'a'])",
            "\"620.5truex[1,\\\"a\\\"]\"",
        ),
    ]);
    check_failures(&[
        (
            "amount.contains('a')",
            "`amount` is a number, not a list or an object",
        ),
        ("name.startsWith(amount)", "`amount` is a number, not a string"),
        (
            "name.substring(2, 99)",
            "`name` is shorter than the places asked for",
        ),
        (
            "name.substring(5, 2)",
            "`name` is shorter than the places asked for",
        ),
        (
            "name.substring(-1)",
            "`name` is shorter than the places asked for",
        ),
        ("name.substring(0.5)", "the value is no whole number that fits"),
        (
            "numbers.join(',')",
            "`numbers` has a number in it, not only strings",
        ),
        (
            "name.matches('(' + '')",
            "the value is no regular expression, or too large a one",
        ),
        (
            "size(amount)",
            "`amount` is a number, not a string, a list or an object",
        ),
        ("string(nothing)", "`nothing` is null, not a value with a text"),
    ]);
}

#[test]
fn functions_over_numbers() {
    check(&[
        ("min(3, 1, 2) + max(numbers) + min(5)", "9"),
        ("max('a', 'b') + min(['d', 'c'])", "\"bc\""),
        ("abs(-2.5) + abs(2)", "4.5"),
        ("ceil(1.2) + floor(-1.2)", "0"),
        (
            "[round(0.5), round(1.5), round(2.5), round(-2.5), round(2.51)]",
            "[0,2,2,-2,3]",
        ),
        (
            "[round(2.345, 2), round(2.355, 2), round(2.3451, 2), round(7, 2)]",
            "[2.34,2.36,2.35,7]",
        ),
        ("[int(2.9), int(-2.9), int(whole_text)]", "[2,-2,42]"),
        ("[double('1.50'), decimal(half_text), number(2)]", "[1.5,4.5,2]"),
        ("bool(true_text) && bool(true) && !bool('false')", "true"),
        (
            "[type(1), type(''), type(null), type([]), type({}), type(yes)]",
            "[\"number\",\"string\",\"null\",\"list\",\"object\",\"boolean\"]",
        ),
        ("sum([]) + sum(numbers) + numbers.sum()", "12"),
        ("sum([0.1, 0.2]) == 0.3", "true"),
    ]);
    check_failures(&[
        ("min([])", "the value is an empty list"),
        ("max(1, 'a')", "cannot compare a string with a number"),
        ("max(mixed)", "cannot compare a string with a number"),
        ("min(yes)", "cannot compare a boolean with a boolean"),
        ("sum(mixed)", "`mixed` has a string in it, not only numbers"),
        ("round(1.5, 29)", "the value is not between 0 and 28"),
        ("round(name)", "`name` is a string, not a number"),
        ("int(half_text)", "`half_text` is no whole number"),
        ("int(yes)", "`yes` is a boolean, not a number or its text"),
        ("number(secret)", "`secret` is no text of a number"),
        ("bool(secret)", "`secret` is neither `true` nor `false`"),
    ]);
}

#[test]
fn times_and_durations_compare_and_add() {
    check(&[
        ("timestamp(due)", "\"2026-12-01T08:00:00.000Z\""),
        ("timestamp(day)", "\"2026-12-01T00:00:00.000Z\""),
        ("timestamp(due) == timestamp('2026-12-01T08:00:00Z')", "true"),
        ("timestamp(due) > now && now < timestamp(due)", "true"),
        ("timestamp(due) - timestamp(now) < duration('1d')", "true"),
        ("timestamp(due) - now == duration('PT23H45M')", "true"),
        ("now + duration('15m')", "\"2026-11-30T08:30:00.000Z\""),
        (
            "duration(wait) + timestamp(now) - duration('0.5s')",
            "\"2026-12-01T08:14:59.500Z\"",
        ),
        ("duration('3d') == wait", "false"),
        ("duration(wait) >= duration('24h')", "true"),
        ("duration('90s') + duration('500ms')", "\"PT90.5S\""),
        ("duration('1s') - duration('2s')", "\"-PT1S\""),
        (
            "duration(duration('1s') - duration('2s')) + duration('1s') == duration('0s')",
            "true",
        ),
        ("string(timestamp(due))", "\"2026-12-01T08:00:00.000Z\""),
        (
            "[timestamp(due), duration('1m')]",
            "[\"2026-12-01T08:00:00.000Z\",\"PT60S\"]",
        ),
        (
            "[type(timestamp(due)), type(duration('1m'))]",
            "[\"timestamp\",\"duration\"]",
        ),
        (
            "int(timestamp('1970-01-01T00:01:00Z')) + int(duration('2m'))",
            "180",
        ),
        ("max(timestamp(due), timestamp(now)) == timestamp(due)", "true"),
    ]);
    check_failures(&[
        (
            "timestamp(name)",
            "`name` is no RFC 3339 time, such as 2026-12-01T08:00:00Z",
        ),
        (
            "timestamp('2026-02-30')",
            "the value is no RFC 3339 time, such as 2026-12-01T08:00:00Z",
        ),
        ("timestamp(amount)", "`amount` is a number, not a string"),
        (
            "duration('P1M')",
            "the value has years or months, which have no fixed length: use days",
        ),
        (
            "timestamp(due) > amount",
            "cannot compare a timestamp with `amount` (number)",
        ),
        (
            "timestamp(due) > name",
            "cannot compare a timestamp with `name` (string)",
        ),
        (
            "timestamp(due) + timestamp(due)",
            "cannot add a timestamp and a timestamp",
        ),
        ("timestamp(due) + 5", "cannot add a timestamp and a number"),
        (
            "timestamp('9999-12-31T23:59:59Z') + duration('1d')",
            "the time is out of range",
        ),
    ]);
}
