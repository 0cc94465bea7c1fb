//! What the model reads for each way in which a call can end.

use super::*;

#[test]
fn what_the_model_reads_tells_each_end_from_the_others_d16_d45() {
    let tool = |state: &str, more: Value| (json!({}), state.to_owned(), more);
    let child = |state: &str, result: Value| {
        let more = json!({ "kind": "DELEGATION", "toolRef": "delegate:refund_payout", "result": result });
        (json!({}), state.to_owned(), more)
    };
    let table = [
        (
            tool("COMPLETED", json!({ "result": { "text": "tier: gold" } })),
            "tier: gold",
            false,
        ),
        (
            child("COMPLETED", json!({ "payout_id": "P-55" })),
            r#"{"payout_id":"P-55"}"#,
            false,
        ),
        (
            child(
                "FAILED",
                json!({ "message": "The delegated process ended CANCELLED; it returned nothing." }),
            ),
            "The delegated process ended CANCELLED; it returned nothing.",
            true,
        ),
        (
            child("FAILED", json!("The delegated process ended FAILED.")),
            "The delegated process ended FAILED.",
            true,
        ),
        (
            tool(
                "REFUSED",
                json!({ "result": { "code": "DELEGATION_INPUT_INVALID", "reason": "missing-param",
                "argument": "amount", "detail": "amount is missing", "hint": "add it" } }),
            ),
            "The call was refused: amount is missing (DELEGATION_INPUT_INVALID, missing-param: amount) Hint: add it.",
            true,
        ),
        (
            tool("REJECTED", json!({ "comment": "too much", "decidedBy": "alice" })),
            "A person rejected this call; it was not carried out. The reviewer wrote: too much",
            true,
        ),
        (
            tool(
                "FAILED",
                json!({ "result": { "error": { "code": "ARGUMENTS_INVALID", "message": "/id: no" },
                "sent": false } }),
            ),
            "The call was not sent. ARGUMENTS_INVALID: /id: no",
            true,
        ),
        (
            tool(
                "FAILED",
                json!({ "result": { "text": "no such customer", "sent": true } }),
            ),
            "no such customer",
            true,
        ),
        (
            tool(
                "COMPLETED",
                json!({ "arguments": { "id": "C-2" }, "decidedBy": "alice", "comment": "typo",
                "result": { "text": "ok" } }),
            ),
            "A reviewer changed the arguments before approving; these were used: {\"id\":\"C-2\"}. \
             The reviewer wrote: typo\nok",
            false,
        ),
    ];
    for ((_, state, more), text, is_error) in table {
        let turn = first(json!([call("crm__get_customer", "a")]));
        let answers = answers_of(decide_on(vec![turn, answer(2, 0, &state, more)]));
        assert_eq!((answers[0].text.as_str(), answers[0].is_error), (text, is_error));
    }
}
