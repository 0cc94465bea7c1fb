//! The frozen definition: what deployment leaves behind and the kernel runs. Nothing here is looked up again at
//! run time; everything that a document named (children, tools, approvers) is pinned inside.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Value;
use crate::expr::Expr;
use crate::template::Template;

/// A deployed process: one version, immutable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    /// `metadata.key`.
    pub key: String,
    /// Counts up per key and project; assigned by deployment, not part of the digest.
    pub version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Declared inputs and working variables, in the order of the document.
    pub variables: Vec<Declaration>,
    /// What the process guarantees at its end (`metadata.outputs`); empty when it declares none.
    pub outputs: Vec<Declaration>,
    /// The id of the node that a start enters.
    pub entry: String,
    /// All nodes, in the order of the document.
    pub nodes: Vec<Node>,
    /// Values of `[values]` frozen at deployment, read as `values.x`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, Value>,
}

impl Definition {
    /// The node with this id. Definitions are small (tens of nodes), so a scan beats a map.
    #[must_use]
    pub fn node(&self, id: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// Whether this name is a locked variable: a declared input that is not also an output (architecture §7.6).
    #[must_use]
    pub fn is_locked_input(&self, name: &str) -> bool {
        self.variables
            .iter()
            .any(|d| d.name == name && d.input && d.locked)
            && !self.outputs.iter().any(|d| d.name == name)
    }
}

/// The type of a variable, as language.md lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Type {
    String,
    Integer,
    Number,
    Boolean,
    Date,
    DateTime,
    Duration,
    Object,
    List,
    File,
    Any,
}

/// A declared variable or output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Declaration {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: Type,
    /// An input is asked of whoever starts the process; a working variable is only typed.
    pub input: bool,
    pub required: bool,
    #[serde(default)]
    pub nullable: bool,
    /// False only with `locked: false`.
    pub locked: bool,
    #[serde(default)]
    pub sensitive: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "enum")]
    pub choices: Option<Vec<Value>>,
    /// JSON Schema 2020-12, checked beside the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// One node of the flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ui: Option<Position>,
    /// Where the token goes next; None on `end` and where the node's own fields route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// None: all variables but sensitive ones (agents: what the prompt names, already filled in at freezing).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Vec<Mapping>>,
    /// None: the whole result is merged out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Vec<Mapping>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_error: Vec<Catch>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_timeout: Option<Timeout>,
    #[serde(default)]
    pub retry: Retry,
    pub kind: NodeKind,
}

/// Where an editor drew the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    pub x: i64,
    pub y: i64,
}

/// `name: expression` of an `inputs` or `outputs` map. A value that is no text is a literal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mapping {
    pub name: String,
    pub from: Source,
}

/// The right-hand side of a mapping.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Expression(Expr),
    Literal(Value),
}

/// One entry of `on_error`; without a code it catches every code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Catch {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    pub then: String,
}

/// `on_timeout`: interrupts from entering the node, all waits included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timeout {
    pub when: Moment,
    pub then: String,
}

/// When a timer is due.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// Milliseconds after entering the node.
    After(i64),
    /// An expression giving a duration text (ISO 8601 or `15m`).
    AfterExpression(Expr),
    /// An expression giving a date-time text.
    At(Expr),
}

/// Retries of counted failures (language.md, "Errors"): 3 attempts, 5 s doubling to 5 min, jitter 20 %.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    pub max_attempts: u32,
    pub backoff_ms: i64,
    /// In hundredths: 200 doubles.
    pub multiplier_percent: u32,
    pub max_backoff_ms: i64,
    pub jitter_percent: u32,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            backoff_ms: 5_000,
            multiplier_percent: 200,
            max_backoff_ms: 300_000,
            jitter_percent: 20,
        }
    }
}

/// What a node does. Adding one is a variant here, its file in `documents/` and its file in the kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeKind {
    Start,
    End(End),
    Agent(Box<Agent>),
    EngineTask(EngineTask),
    Decision(DecisionTable),
    Human(Box<Human>),
    CallProcess(Box<CallProcess>),
    Exclusive(Exclusive),
    Parallel(Parallel),
    Timer(Moment),
}

/// `end`, plain or with an error code.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct End {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The child's message to its caller, over inputs and declared outputs only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closing: Option<Template>,
}

/// An external task on a topic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EngineTask {
    /// The topic.
    pub service: String,
    #[serde(default)]
    pub priority: i32,
    /// Unserved for this many milliseconds raises an alarm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_within_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Value>,
    /// Processes that the worker's durable context may delegate to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delegates: Vec<Delegate>,
    /// Per attempt; 10,000 unless the document says less.
    pub max_steps: u32,
    pub max_concurrent: u32,
}

/// An AI agent: an external task whose next step a model chooses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    /// `agent` or `agent.<pool>`.
    pub topic: String,
    /// None: the project's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback_models: Vec<String>,
    /// The user's message: references become values there, never in `instructions` (D43).
    pub prompt: Template,
    /// The system message: frozen text; placeholders have become references.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// First 12 hex digits of the SHA-256 of instructions, tools and output schema.
    pub prompt_version: String,
    pub tools: Vec<ToolBinding>,
    pub delegates: Vec<Delegate>,
    /// `<id>_result` unless named.
    pub result_variable: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Exact decimal between 0 and 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence_threshold: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_low_confidence: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_invalid_output: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outcomes: Vec<AgentOutcome>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<Value>,
    pub max_tokens: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_timeout_ms: Option<i64>,
    pub max_turns: u32,
    pub max_steps: u32,
    /// None: no limit (a node without tools).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens_total: Option<u64>,
    pub max_concurrent: u32,
}

/// One of 2–8 named results of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentOutcome {
    pub name: String,
    pub then: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// A veto: false refuses the outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Expr>,
}

/// A tool of a tool server, with the policy frozen (server's and node's, whichever is tighter, D38).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolBinding {
    pub server: String,
    pub tool: String,
    /// The name the model sees: `server__tool`.
    pub function: String,
    pub policy: Policy,
    /// Whether a write carries an idempotency key that the server honours.
    pub idempotent: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The contract pin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema_sha256: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<i64>,
}

impl ToolBinding {
    /// The journal's name of this tool: `server/tool`.
    #[must_use]
    pub fn reference(&self) -> String {
        format!("{}/{}", self.server, self.tool)
    }
}

/// D38.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    Read,
    Write,
    ApprovalRequired,
}

/// Who must approve a call before it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    pub groups: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<String>,
}

/// A process that an agent or a worker may start as its own instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Delegate {
    pub process: String,
    /// The pinned version (D5).
    pub version: u32,
    /// `delegate__process`.
    pub function: String,
    pub description: String,
    /// The child's declared inputs, frozen.
    pub inputs: Vec<Declaration>,
    /// JSON Schema of the inputs: what the model sees (D3).
    pub parameters: Value,
    /// The only child variables that come back (D4).
    pub outputs: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u32>,
    pub on_parent_end: OnParentEnd,
    /// `closing: agent`: the child's last agent's words may cross.
    #[serde(default)]
    pub closing_agent: bool,
}

/// What becomes of a child when its parent ends first (D69). Only `cancel` now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnParentEnd {
    #[default]
    Cancel,
}

/// Rules in a table, evaluated in the transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecisionTable {
    pub hit_policy: HitPolicy,
    pub rules: Vec<DecisionRule>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<Vec<Column>>,
}

/// One rule of a decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecisionRule {
    pub when: Expr,
    pub then: Vec<Column>,
    #[serde(default)]
    pub priority: i64,
}

/// A column of a decision's answer: a literal, or `${…}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Column {
    pub name: String,
    pub value: Source,
}

/// DMN's hit policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum HitPolicy {
    First,
    Unique,
    Any,
    Priority,
    Collect,
    CollectSum,
    CollectMin,
    CollectMax,
    CollectCount,
}

/// Work for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Human {
    pub groups: Vec<String>,
    pub users: Vec<String>,
    /// JSON Schema of the inline form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<Value>,
    /// Empty: completing moves on to `next`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outcomes: Vec<HumanOutcome>,
    #[serde(default)]
    pub priority: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Moment>,
}

/// A button of a human task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HumanOutcome {
    pub name: String,
    pub then: String,
    pub comment: CommentRule,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// Whether deciding needs words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommentRule {
    None,
    #[default]
    Optional,
    Required,
}

/// A child process as a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallProcess {
    pub process: String,
    /// None: the latest at run time (`version: latest`), which is also what `recursive` uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    #[serde(default)]
    pub recursive: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u32>,
    pub on_parent_end: OnParentEnd,
}

/// First true rule wins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exclusive {
    pub rules: Vec<Branch>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<String>,
}

/// `{ if: …, then: … }`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Branch {
    pub when: Expr,
    pub then: String,
}

/// A fork, or a join of all branches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Parallel {
    Fork(Vec<String>),
    JoinAll,
}
