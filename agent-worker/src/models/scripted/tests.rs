#![expect(clippy::unwrap_used, reason = "a panic is the failure message of a test")]

use super::super::SaidCall;
use super::*;

const STORY: &str = r#"
- match: { prompt: 'order (?<order>[A-Z]-\d+)', turn: 1 }
  calls:
    - { tool: crm/get_customer, arguments: { order: "${prompt.order}", note: "about ${prompt.1}" } }
- match: { tool: crm/get_customer, error: true }
  text: "I could not read the customer: ${result}"
- match: { tool: crm/get_customer, prompt: '([\d.]+) EUR' }
  calls:
    - tool: delegate:refund_payout
      arguments: { order: "${result/orders/0/id}", amount: "${result/orders/0/amount}", asked: "${prompt.1 | number}" }
- match: { tool: "delegate:refund_payout" }
  json: { payout: "${result/payout_id}", to: "${results[crm/get_customer]/email}", cost: "$${free}" }
"#;

fn script(text: &str) -> Scripted {
    Scripted::parse(Path::new("story.yaml"), text).unwrap()
}

async fn ask(script: &Scripted, messages: &[Message]) -> Result<Turn, ModelError> {
    let request = TurnRequest {
        system: "be kind",
        messages,
        functions: &[],
        max_tokens: 100,
        temperature: None,
        timeout: Duration::from_secs(1),
        on_text: None,
    };
    script.turn(request).await
}

fn said(function: &str) -> Message {
    let arguments = Arguments::parse(String::new());
    let call = SaidCall {
        id: "c".to_owned(),
        function: function.to_owned(),
        arguments,
        signature: None,
    };
    Message::Assistant {
        text: None,
        calls: vec![call],
    }
}

fn answered(function: &str, text: &str, is_error: bool) -> Message {
    let answer = Answer {
        id: "c".to_owned(),
        function: function.to_owned(),
        text: text.to_owned(),
        is_error,
    };
    Message::Answers(vec![answer])
}

const CUSTOMER: &str = r#"{"email":"a@b.c","orders":[{"id":"A-7","amount":12345678901234567.89}]}"#;

#[tokio::test]
async fn the_refund_story_runs_for_any_input() {
    let script = script(STORY);
    let mut conversation = vec![Message::User("complaint about order A-7, 40.50 EUR".to_owned())];
    let turn = ask(&script, &conversation).await.unwrap();
    assert_eq!(turn.model, "scripted");
    assert_eq!(turn.calls[0].function, "crm__get_customer");
    assert_eq!(
        turn.calls[0].arguments.text(),
        r#"{"order":"A-7","note":"about A-7"}"#
    );
    assert!(turn.usage.input_tokens > 0 && turn.usage.output_tokens > 0);

    conversation.push(said("crm__get_customer"));
    conversation.push(answered("crm__get_customer", CUSTOMER, false));
    let turn = ask(&script, &conversation).await.unwrap();
    assert_eq!(turn.calls[0].function, "delegate__refund_payout");
    let arguments = turn.calls[0].arguments.text();
    assert_eq!(
        arguments,
        r#"{"order":"A-7","amount":12345678901234567.89,"asked":40.50}"#
    );

    conversation.push(said("delegate__refund_payout"));
    conversation.push(answered(
        "delegate__refund_payout",
        r#"{"payout_id":"P-55"}"#,
        false,
    ));
    let turn = ask(&script, &conversation).await.unwrap();
    assert_eq!(
        turn.text.unwrap(),
        r#"{"payout":"P-55","to":"a@b.c","cost":"${free}"}"#
    );
}

/// What `legation run --record` writes: JSON, a pattern of the whole first message, signs of templates escaped.
#[tokio::test]
async fn a_recorded_script_says_the_same_again() {
    let script = script(
        r#"# What the models of 01 answered.
- {"match":{"turn":1,"prompt":"^Refund order 5\\-1\\? \\(\\$\\{x\\}\\)$"},"calls":[{"tool":"crm__get","arguments":{"n":1,"note":"$${y}"}},{"tool":"crm__get","arguments_text":"{broken"}]}
- {"match":{"turn":2,"prompt":"^Refund order 5\\-1\\? \\(\\$\\{x\\}\\)$"},"text":"paid $${z}"}
"#,
    );
    let mut conversation = vec![Message::User("Refund order 5-1? (${x})".to_owned())];
    let turn = ask(&script, &conversation).await.unwrap();
    let said_again: Vec<&str> = turn.calls.iter().map(|call| call.arguments.text()).collect();
    assert_eq!(said_again, [r#"{"n":1,"note":"${y}"}"#, "{broken"]);
    conversation.push(said("crm__get"));
    conversation.push(answered("crm__get", "{}", false));
    let turn = ask(&script, &conversation).await.unwrap();
    assert_eq!(turn.text.unwrap(), "paid ${z}");
    let other = [Message::User("Refund order 5-1? (${x}) now".to_owned())];
    assert!(ask(&script, &other).await.is_err());
}

#[tokio::test]
async fn an_error_is_told_from_an_answer() {
    let conversation = [
        Message::User("order A-7".to_owned()),
        said("crm__get_customer"),
        answered("crm__get_customer", "server is down", true),
    ];
    let turn = ask(&script(STORY), &conversation).await.unwrap();
    assert_eq!(
        turn.text.unwrap(),
        "I could not read the customer: server is down"
    );
}

#[tokio::test]
async fn an_unmatched_turn_fails_showing_the_conversation() {
    let conversation = [Message::User("good morning".to_owned())];
    let error = ask(&script(STORY), &conversation).await.unwrap_err();
    let ModelError::Fatal { message } = error else {
        panic!("{error:?}")
    };
    assert!(
        message.contains("story.yaml") && message.contains("user: good morning"),
        "{message}"
    );
}

#[tokio::test]
async fn rubbish_repeated_ids_and_a_busy_model_can_be_played() {
    let script = script(
        r#"
- match: { turn: 1 }
  calls:
    - { tool: crm/a, arguments_text: "not json", call_id: same }
    - { tool: nowhere, call_id: same }
- unavailable_ms: 1500
"#,
    );
    let mut conversation = vec![Message::User("x".to_owned())];
    let turn = ask(&script, &conversation).await.unwrap();
    assert!(matches!(&turn.calls[0].arguments, Arguments::Text(t) if t == "not json"));
    assert_eq!(turn.calls[1].function, "nowhere");
    assert_eq!(turn.calls[0].id, turn.calls[1].id);
    conversation.push(said("crm__a"));
    let error = ask(&script, &conversation).await.unwrap_err();
    let ModelError::Unavailable { retry_after, .. } = error else {
        panic!("{error:?}")
    };
    assert_eq!(retry_after, Some(Duration::from_millis(1500)));
}

#[test]
fn a_rule_that_says_nothing_is_refused() {
    for text in [
        "- match: { turn: 1 }",
        "- { text: a, json: {} }",
        "- { text: a, wat: 1 }",
        "- { match: { text: '(' }, text: a }",
    ] {
        assert!(Scripted::parse(Path::new("s"), text).is_err(), "{text}");
    }
}

/// The first line alone is what an incident shows.
#[tokio::test]
async fn a_turn_without_a_rule_says_which_one_and_what_to_do_in_its_first_line() {
    let script = script(STORY);
    let conversation = [
        Message::User("hello".to_owned()),
        said("crm__get_order"),
        answered("crm__get_order", "nothing", false),
    ];
    let error = ask(&script, &conversation).await.unwrap_err().to_string();
    let (first, rest) = error.split_once('\n').unwrap();
    assert!(
        first.ends_with("fits turn 2 of this conversation; add one, or let a real model answer"),
        "{first}"
    );
    assert!(rest.contains("crm__get_order"), "{rest}");
}
