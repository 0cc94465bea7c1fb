//! Each provider against the shapes that its API really sends: calls, parallel calls, streams, refusals (B20).
#![expect(clippy::unwrap_used, reason = "a panic is the failure message of a test")]

mod shapes;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use legation_agent_worker::config::Models as ModelsConfig;
use legation_agent_worker::http::Outgoing;
use legation_agent_worker::models::configured::{Env, Models, addresses};
use legation_agent_worker::models::{
    Answer, Arguments, Function, Message, Model, ModelError, SaidCall, Turn, TurnRequest, raw_of,
};
use serde_json::{Value, json};
use shapes::{ARGUMENTS, Provider, exact, providers, sse};
use wiremock::matchers::{header, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

async fn model(provider: &Provider, server: &MockServer) -> Arc<dyn Model> {
    model_at(provider, &server.uri())
}

fn model_at(provider: &Provider, address: &str) -> Arc<dyn Model> {
    let mut variables: HashMap<String, String> = HashMap::new();
    variables.insert(provider.base_variable.to_owned(), address.to_owned());
    variables.insert(provider.key_variable.to_owned(), "test-key-123".to_owned());
    let env: Env = Arc::new(move |name: &str| variables.get(name).cloned());
    let config = ModelsConfig::default();
    let outgoing = Outgoing::new(addresses(&config, &*env)).unwrap();
    Models::new(config, env, outgoing)
        .get(&format!("{}:m-1", provider.name))
        .unwrap()
}

/// A conversation with everything in it: a text, parallel calls with one failed answer, a follow-up.
fn conversation() -> Vec<Message> {
    let call = |id: &str, function: &str, arguments: &str| SaidCall {
        id: id.to_owned(),
        function: function.to_owned(),
        arguments: Arguments::parse(arguments.to_owned()),
        signature: (id == "call_1_0").then(|| "c2ln".to_owned()),
    };
    let answer = |id: &str, function: &str, text: &str, is_error| Answer {
        id: id.to_owned(),
        function: function.to_owned(),
        text: text.to_owned(),
        is_error,
    };
    vec![
        Message::User("pay it".to_owned()),
        Message::Assistant {
            text: Some("One moment.".to_owned()),
            calls: vec![
                call("call_1_0", "crm__pay", ARGUMENTS),
                call("call_1_1", "crm__list", "rubbish"),
            ],
        },
        Message::Answers(vec![
            answer("call_1_0", "crm__pay", "paid", false),
            answer("call_1_1", "crm__list", "no such list", true),
        ]),
    ]
}

async fn ask(model: &dyn Model, heard: Option<&Mutex<Vec<String>>>) -> Result<Turn, ModelError> {
    let parameters = raw_of(&json!({ "type": "object", "properties": { "amount": { "type": "number" } } }));
    let functions = [Function {
        name: "crm__pay".to_owned(),
        description: "Pays.".to_owned(),
        parameters,
    }];
    let on_text = |piece: &str| {
        if let Some(heard) = heard {
            heard.lock().unwrap().push(piece.to_owned());
        }
    };
    let messages = conversation();
    let request = TurnRequest {
        system: "Be kind.",
        messages: &messages,
        functions: &functions,
        max_tokens: 321,
        temperature: Some(0.5),
        timeout: Duration::from_secs(10),
        on_text: heard.map(|_| &on_text as &(dyn Fn(&str) + Send + Sync)),
    };
    model.turn(request).await
}

async fn answering(provider: &Provider, template: ResponseTemplate, stream: bool) -> MockServer {
    let server = MockServer::start().await;
    let at = if stream {
        provider.stream_path
    } else {
        provider.whole_path
    };
    let (name, value) = provider.key_header;
    Mock::given(method("POST"))
        .and(path(at))
        .and(header(name, value))
        .respond_with(template)
        .mount(&server)
        .await;
    server
}

#[tokio::test]
async fn parallel_calls_keep_order_digits_and_usage_with_every_provider_d63() {
    for provider in providers() {
        let body = ResponseTemplate::new(200).set_body_raw(exact(&provider.whole), "application/json");
        let server = answering(&provider, body, false).await;
        let turn = ask(&*model(&provider, &server).await, None).await.unwrap();
        let name = provider.name;
        assert_eq!(turn.model, "used-model", "{name}");
        let calls: Vec<(&str, &str)> = turn
            .calls
            .iter()
            .map(|c| (c.function.as_str(), c.arguments.text()))
            .collect();
        assert_eq!(calls, [("crm__pay", ARGUMENTS), ("crm__list", "{}")], "{name}");
        assert_eq!(
            (turn.usage.input_tokens, turn.usage.output_tokens),
            (11, 7),
            "{name}"
        );
        assert_eq!(turn.text, None, "{name}");
        assert!(!turn.truncated, "{name}");
        assert_eq!(turn.calls[0].signature.is_some(), name == "gemini");
    }
}

#[tokio::test]
async fn streams_are_heard_piece_by_piece_and_put_together_with_every_provider() {
    for provider in providers() {
        let body = ResponseTemplate::new(200).set_body_raw(provider.stream.clone(), provider.stream_type);
        let server = answering(&provider, body, true).await;
        let heard = Mutex::new(Vec::new());
        let turn = ask(&*model(&provider, &server).await, Some(&heard))
            .await
            .unwrap();
        let name = provider.name;
        assert_eq!(*heard.lock().unwrap(), ["Hello ", "there"], "{name}");
        assert_eq!(turn.text.as_deref(), Some("Hello there"), "{name}");
        assert_eq!(turn.calls.len(), 1, "{name}");
        assert_eq!(turn.calls[0].arguments.text(), ARGUMENTS, "{name}");
        assert_eq!(
            (turn.usage.input_tokens, turn.usage.output_tokens),
            (11, 7),
            "{name}"
        );
        assert_eq!(turn.model, "used-model", "{name}");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_unavailable_not_an_answer() {
    for provider in providers() {
        let half: String = provider.stream.chars().take(provider.stream.len() / 3).collect();
        let end = half.rfind('\n').unwrap_or(0);
        let body = ResponseTemplate::new(200).set_body_raw(half[..end].to_owned(), provider.stream_type);
        let server = answering(&provider, body, true).await;
        let heard = Mutex::new(Vec::new());
        let error = ask(&*model(&provider, &server).await, Some(&heard))
            .await
            .unwrap_err();
        assert!(
            matches!(error, ModelError::Unavailable { .. }),
            "{}: {error:?}",
            provider.name
        );
    }
}

#[tokio::test]
async fn busy_is_unavailable_with_its_retry_after_b20() {
    for provider in providers() {
        for (status, wait) in [
            (429, Some("7")),
            (500, None),
            (503, Some("7")),
            (529, None),
            (408, None),
        ] {
            let mut body = ResponseTemplate::new(status)
                .set_body_json(json!({ "error": { "message": "overloaded", "type": "x" } }));
            if let Some(wait) = wait {
                body = body.insert_header("retry-after", wait);
            }
            let server = answering(&provider, body, false).await;
            let error = ask(&*model(&provider, &server).await, None).await.unwrap_err();
            let ModelError::Unavailable { message, retry_after } = error else {
                panic!("{} {status}: {error:?}", provider.name)
            };
            assert_eq!(
                retry_after,
                wait.map(|_| Duration::from_secs(7)),
                "{} {status}",
                provider.name
            );
            assert!(message.contains("overloaded"), "{message}");
        }
    }
}

#[tokio::test]
async fn a_bad_key_or_request_is_fatal_with_every_provider() {
    for provider in providers() {
        for status in [400, 401, 403, 404, 422] {
            let body = ResponseTemplate::new(status).set_body_json(json!({ "error": { "message": "no" } }));
            let server = answering(&provider, body, false).await;
            let error = ask(&*model(&provider, &server).await, None).await.unwrap_err();
            assert!(
                matches!(error, ModelError::Fatal { .. }),
                "{} {status}: {error:?}",
                provider.name
            );
        }
    }
}

#[tokio::test]
async fn nobody_there_and_too_slow_are_unavailable() {
    for provider in providers() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let model = model_at(&provider, &format!("http://{closed}"));
        let error = ask(&*model, None).await.unwrap_err();
        assert!(
            matches!(error, ModelError::Unavailable { .. }),
            "{}: {error:?}",
            provider.name
        );
    }
    let slow = &providers()[0];
    let body = ResponseTemplate::new(200).set_delay(Duration::from_secs(30));
    let server = answering(slow, body, false).await;
    let model = model(slow, &server).await;
    let request = TurnRequest {
        system: "",
        messages: &[Message::User("x".to_owned())],
        functions: &[],
        max_tokens: 1,
        temperature: None,
        timeout: Duration::from_millis(50),
        on_text: None,
    };
    let error = model.turn(request).await.unwrap_err();
    assert!(matches!(error, ModelError::Unavailable { .. }), "{error:?}");
}

#[tokio::test]
async fn a_redirect_to_another_host_is_refused_with_the_key_still_here() {
    let provider = &providers()[0];
    let elsewhere = MockServer::start().await;
    let to = format!("{}/chat/completions", elsewhere.uri());
    let body = ResponseTemplate::new(307).insert_header("location", to.as_str());
    let server = answering(provider, body, false).await;
    let error = ask(&*model(provider, &server).await, None).await.unwrap_err();
    assert!(matches!(error, ModelError::Fatal { .. }), "{error:?}");
    assert!(elsewhere.received_requests().await.unwrap().is_empty());
}

/// What each provider is sent: bounds, system message, our own call ids, errors marked as errors.
#[tokio::test]
async fn the_whole_conversation_is_sent_in_each_providers_form_d62() {
    for provider in providers() {
        let body = ResponseTemplate::new(200).set_body_raw(exact(&provider.whole), "application/json");
        let server = answering(&provider, body, false).await;
        ask(&*model(&provider, &server).await, None).await.unwrap();
        let requests = server.received_requests().await.unwrap();
        let text = String::from_utf8(requests[0].body.clone()).unwrap();
        assert!(
            text.contains("12345678901234567.89"),
            "{}: digits were lost: {text}",
            provider.name
        );
        let sent: Value = serde_json::from_str(&text).unwrap();
        let at = |pointer: &str| sent.pointer(pointer).cloned().unwrap_or_default();
        match provider.name {
            "openai" => {
                assert_eq!(at("/max_tokens"), 321);
                assert_eq!(
                    at("/messages/0"),
                    json!({ "role": "system", "content": "Be kind." })
                );
                assert_eq!(at("/messages/2/tool_calls/0/id"), "call_1_0");
                assert_eq!(at("/messages/2/tool_calls/1/function/arguments"), "rubbish");
                assert_eq!(
                    at("/messages/4"),
                    json!({ "role": "tool", "content": "no such list", "tool_call_id": "call_1_1" })
                );
                assert_eq!(at("/tools/0/function/name"), "crm__pay");
            }
            "anthropic" => {
                assert_eq!(at("/max_tokens"), 321);
                assert_eq!(at("/system"), "Be kind.");
                assert_eq!(at("/messages/1/content/1/id"), "call_1_0");
                assert_eq!(
                    at("/messages/1/content/2/input"),
                    json!({ "argumentsText": "rubbish" })
                );
                assert_eq!(at("/messages/2/content/0/is_error"), false);
                assert_eq!(at("/messages/2/content/1/is_error"), true);
                assert_eq!(at("/messages/2/content/1/tool_use_id"), "call_1_1");
                assert_eq!(at("/tools/0/input_schema/type"), "object");
            }
            "gemini" => {
                assert_eq!(at("/generationConfig/maxOutputTokens"), 321);
                assert_eq!(at("/systemInstruction/parts/0/text"), "Be kind.");
                assert_eq!(at("/contents/1/parts/1/thoughtSignature"), "c2ln");
                assert_eq!(
                    at("/contents/2/parts/0/functionResponse/response"),
                    json!({ "result": "paid" })
                );
                assert_eq!(
                    at("/contents/2/parts/1/functionResponse/response"),
                    json!({ "error": "no such list" })
                );
                assert_eq!(at("/tools/0/functionDeclarations/0/name"), "crm__pay");
            }
            _ => {
                assert_eq!(at("/options/num_predict"), 321);
                assert_eq!(at("/messages/0/content"), "Be kind.");
                assert_eq!(at("/messages/3/tool_name"), "crm__pay");
                assert_eq!(
                    at("/messages/2/tool_calls/1/function/arguments/argumentsText"),
                    "rubbish"
                );
            }
        }
    }
}

#[tokio::test]
async fn an_openai_server_that_leaves_indices_out_or_repeats_them_is_understood() {
    let provider = &providers()[0];
    for index in [json!(0), Value::Null] {
        let call = |name: &str| {
            let call =
                json!({ "index": index, "id": name, "function": { "name": name, "arguments": "{\"a\":1}" } });
            json!({ "choices": [{ "delta": { "tool_calls": [call] } }] }).to_string()
        };
        let end = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
        let body = sse(&[&call("one"), &call("two"), end, "[DONE]"]);
        let body = ResponseTemplate::new(200).set_body_raw(body, "text/event-stream");
        let server = answering(provider, body, true).await;
        let heard = Mutex::new(Vec::new());
        let turn = ask(&*model(provider, &server).await, Some(&heard)).await.unwrap();
        let calls: Vec<(&str, &str)> = turn
            .calls
            .iter()
            .map(|c| (c.function.as_str(), c.arguments.text()))
            .collect();
        assert_eq!(calls, [("one", "{\"a\":1}"), ("two", "{\"a\":1}")], "{index}");
    }
}
