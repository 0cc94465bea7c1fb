//! What happened to an instance, in past tense. Events carry all that replay needs: no definition, clock or
//! expression is read when they are applied (core §1).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Child, Ending, Failure, Parent, Source, Status, Stuck, Variable, Wait};
use crate::content::Content;
use crate::ids::InstanceId;

/// One event of format 1. A history row holds the events of one command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    InstanceStarted(Box<Started>),
    VariableSet {
        scope: u32,
        name: String,
        variable: Variable,
    },
    TokenCreated {
        token: u32,
        scope: u32,
        node: String,
        activity: u32,
        forks: Vec<u32>,
        from: Option<String>,
    },
    /// The token went on to another node and is READY there.
    TokenMoved {
        token: u32,
        node: String,
        activity: u32,
        from: String,
        forks: Option<Vec<u32>>,
    },
    TokenWaits {
        token: u32,
        wait: Wait,
    },
    TokenStuck {
        token: u32,
        stuck: Stuck,
        code: String,
    },
    /// READY again at the same node: after an incident's retry.
    TokenReady {
        token: u32,
    },
    TokenEnded {
        token: u32,
    },
    TimerArmed {
        timer: u32,
        due_at: i64,
        guards: Option<Guard>,
    },
    TimerFired {
        timer: u32,
    },
    TimerDisarmed {
        timer: u32,
    },
    TaskCreated {
        token: u32,
        task: u32,
        topic: String,
    },
    /// A counted failure, or an operator's retry: the task goes on with this attempt.
    AttemptEnded {
        task: u32,
        attempt: u32,
        tries: u32,
        code: String,
        message: String,
        available_at: Option<i64>,
    },
    TaskEnded {
        task: u32,
        outcome: String,
        code: Option<String>,
    },
    HumanOpened {
        human: u32,
        approval_of: Option<(u32, u32, u32)>,
    },
    HumanClosed {
        human: u32,
        outcome: Option<String>,
        by: Option<String>,
        comment: Option<String>,
    },
    ChildStarted {
        child: u32,
        running: Child,
    },
    ChildEnded {
        child: u32,
        status: Status,
    },
    /// D21: the result of a child that nobody waits for any more.
    ChildResultIgnored {
        child: u32,
        status: Status,
    },
    IncidentOpened {
        incident: u32,
        code: String,
        node: String,
    },
    IncidentClosed {
        incident: u32,
        by: String,
        resolution: String,
    },
    NoticeOpened {
        notice: u32,
        code: String,
        node: String,
    },
    /// Which rules of a decision matched, by index; `usize::MAX` never stands here: `otherwise` is an empty list.
    DecisionTaken {
        token: u32,
        node: String,
        matched: Vec<u32>,
        columns: BTreeMap<String, Content>,
    },
    BranchTaken {
        token: u32,
        node: String,
        target: String,
    },
    ErrorRaised {
        node: String,
        code: String,
        message: Option<String>,
        caught_by: Option<String>,
    },
    OutcomeChosen {
        node: String,
        outcome: String,
    },
    /// Numbers that only rows outside the instance carry (approvals of steps, timers of steps).
    NumbersTaken {
        next: u32,
    },
    /// A child that holds something sensitive gave values: from now on none stands in a row as it is.
    Sealed,
    /// An end's `closing`, rendered; it crosses to the caller when the instance completes.
    ClosingRendered {
        message: Content,
    },
    /// Nothing of it moves any more; it is over when nothing below it runs. `into` says how it ends unless cancelled.
    InstanceEnding {
        reason: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        into: Option<Box<Ending>>,
    },
    InstanceEnded {
        status: Status,
        reason: Option<String>,
        error: Option<Failure>,
        message: Option<Content>,
    },
}

/// What a timer guards beside the token's own wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Guard {
    /// `on_timeout` of this token.
    Timeout(u32),
    /// `start_within` of the task that this token waits for.
    Start(u32),
}

/// The first event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Started {
    pub id: InstanceId,
    pub project: String,
    pub process: String,
    pub version: u32,
    pub business_key: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub initiator: String,
    pub depth: u32,
    pub chain: Vec<String>,
    pub parent: Option<Parent>,
    /// The parent holds something sensitive, and the inputs may be it.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub sealed: bool,
}

impl Source {
    /// Written by a start or an operator.
    #[must_use]
    pub fn actor(actor: &str) -> Self {
        Self {
            actor: Some(actor.to_owned()),
            ..Self::default()
        }
    }

    /// Written by a node that the engine itself runs.
    #[must_use]
    pub fn node(node: &str) -> Self {
        Self {
            node: Some(node.to_owned()),
            ..Self::default()
        }
    }
}
