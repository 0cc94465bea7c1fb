//! What the providers' APIs answer, in their own shapes.

use serde_json::{Value, json};

/// How one provider says the same things.
pub struct Provider {
    pub name: &'static str,
    pub base_variable: &'static str,
    pub key_variable: &'static str,
    pub key_header: (&'static str, &'static str),
    pub whole_path: &'static str,
    pub stream_path: &'static str,
    /// Two calls in one turn, one object and one without arguments; the amount has 19 digits.
    pub whole: Value,
    /// The text "Hello there" in two pieces, then a call.
    pub stream: String,
    pub stream_type: &'static str,
}

pub fn sse(events: &[&str]) -> String {
    events.iter().map(|e| format!("data: {e}\n\n")).collect()
}

pub const ARGUMENTS: &str = r#"{"amount":12345678901234567.89}"#;

/// JSON text with the digits of the amount in it; `json!` would round them.
pub fn exact(value: &Value) -> String {
    value.to_string().replace("\"@AMOUNT\"", "12345678901234567.89")
}

pub fn providers() -> Vec<Provider> {
    let openai_call = |index: usize, name: &str, arguments: &str| {
        json!({ "index": index, "id": format!("call_{name}"), "type": "function",
            "function": { "name": name, "arguments": arguments } })
    };
    vec![
        Provider {
            name: "openai",
            base_variable: "OPENAI_BASE_URL",
            key_variable: "OPENAI_API_KEY",
            key_header: ("authorization", "Bearer test-key-123"),
            whole_path: "/chat/completions",
            stream_path: "/chat/completions",
            whole: json!({ "id": "chatcmpl-1", "model": "used-model", "choices": [{ "index": 0, "finish_reason": "tool_calls",
                "message": { "role": "assistant", "content": null,
                    "tool_calls": [openai_call(0, "crm__pay", ARGUMENTS), openai_call(1, "crm__list", "")] } }],
                "usage": { "prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18 } }),
            stream: sse(&[
                r#"{"model":"used-model","choices":[{"index":0,"delta":{"role":"assistant","content":"Hello "}}]}"#,
                r#"{"model":"used-model","choices":[{"index":0,"delta":{"content":"there"}}]}"#,
                r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"crm__pay","arguments":""}}]}}]}"#,
                r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"amount\":123456789012"}}]}}]}"#,
                r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"34567.89}"}}]}}]}"#,
                r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#,
                r#"{"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7}}"#,
                "[DONE]",
            ]),
            stream_type: "text/event-stream",
        },
        Provider {
            name: "anthropic",
            base_variable: "ANTHROPIC_BASE_URL",
            key_variable: "ANTHROPIC_API_KEY",
            key_header: ("x-api-key", "test-key-123"),
            whole_path: "/v1/messages",
            stream_path: "/v1/messages",
            whole: json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "used-model",
                "content": [{ "type": "tool_use", "id": "toolu_1", "name": "crm__pay", "input": { "amount": "@AMOUNT" } },
                    { "type": "tool_use", "id": "toolu_2", "name": "crm__list", "input": {} }],
                "stop_reason": "tool_use", "usage": { "input_tokens": 10, "cache_read_input_tokens": 1, "output_tokens": 7 } }),
            stream: sse(&[
                r#"{"type":"message_start","message":{"id":"msg_1","model":"used-model","content":[],"usage":{"input_tokens":11,"output_tokens":1}}}"#,
                r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
                r#"{"type":"ping"}"#,
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello "}}"#,
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"there"}}"#,
                r#"{"type":"content_block_stop","index":0}"#,
                r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"crm__pay","input":{}}}"#,
                r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"amount\":123456789012"}}"#,
                r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"34567.89}"}}"#,
                r#"{"type":"content_block_stop","index":1}"#,
                r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":7}}"#,
                r#"{"type":"message_stop"}"#,
            ]),
            stream_type: "text/event-stream",
        },
        Provider {
            name: "gemini",
            base_variable: "GEMINI_BASE_URL",
            key_variable: "GEMINI_API_KEY",
            key_header: ("x-goog-api-key", "test-key-123"),
            whole_path: "/v1beta/models/m-1:generateContent",
            stream_path: "/v1beta/models/m-1:streamGenerateContent",
            whole: json!({ "candidates": [{ "content": { "role": "model", "parts": [
                    { "functionCall": { "name": "crm__pay", "args": { "amount": "@AMOUNT" } }, "thoughtSignature": "c2ln" },
                    { "functionCall": { "name": "crm__list" } }] }, "finishReason": "STOP" }],
                "usageMetadata": { "promptTokenCount": 11, "candidatesTokenCount": 4, "thoughtsTokenCount": 3 },
                "modelVersion": "used-model" }),
            stream: sse(&[
                r#"{"candidates":[{"content":{"parts":[{"text":"secret thought","thought":true}]}}]}"#,
                r#"{"candidates":[{"content":{"parts":[{"text":"Hello "}]}}],"modelVersion":"used-model"}"#,
                r#"{"candidates":[{"content":{"parts":[{"text":"there"},{"functionCall":{"name":"crm__pay","args":{"amount":12345678901234567.89}}}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":11,"candidatesTokenCount":7}}"#,
            ]),
            stream_type: "text/event-stream",
        },
        Provider {
            name: "ollama",
            base_variable: "OLLAMA_HOST",
            key_variable: "NONE",
            key_header: ("content-type", "application/json"),
            whole_path: "/api/chat",
            stream_path: "/api/chat",
            whole: json!({ "model": "used-model", "message": { "role": "assistant", "content": "", "tool_calls": [
                    { "function": { "name": "crm__pay", "arguments": { "amount": "@AMOUNT" } } },
                    { "function": { "name": "crm__list", "arguments": {} } }] },
                "done": true, "done_reason": "stop", "prompt_eval_count": 11, "eval_count": 7 }),
            stream: [
                r#"{"model":"used-model","message":{"role":"assistant","content":"Hello "},"done":false}"#,
                r#"{"model":"used-model","message":{"role":"assistant","content":"there"},"done":false}"#,
                r#"{"model":"used-model","message":{"content":"","tool_calls":[{"function":{"name":"crm__pay","arguments":{"amount":12345678901234567.89}}}]},"done":false}"#,
                r#"{"model":"used-model","message":{"content":""},"done":true,"done_reason":"stop","prompt_eval_count":11,"eval_count":7}"#,
            ]
            .join("\n"),
            stream_type: "application/x-ndjson",
        },
    ]
}
