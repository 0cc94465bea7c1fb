//! Journaling (D35–D41, D60–D63): recognises what was sent before, checks in D36's order, grants, takes results.
//! One call is one commit, all or nothing.

use std::sync::Arc;

use legation_language::Value;
use legation_language::model::Policy;

use super::accept::{self, Delivery};
use super::check::{self, Target};
use super::children::ChildStart;
use super::grant::{grant, granted_arguments};
use super::{
    JournalContext, Mover, Standing, Step, StepInput, StepKind, StepState, Verdict, create, judge, states,
    turn,
};
use crate::content::PayloadRef;
use crate::effect::Effect;
use crate::ids::InstanceId;
use crate::rejection::{Rejection, Stop};
use crate::task::{Caller, TaskFile, call_back, check_lease, end_lease, hold, is_idle};

/// A call of the steps endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub caller: Caller,
    pub attempt: u32,
    /// The single form: a refused call answers its code and records nothing (core §4).
    pub single: bool,
    pub steps: Vec<StepInput>,
}

/// What the call answers and did.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// In the order sent.
    pub steps: Vec<StepAnswer>,
    /// To be started in this commit.
    pub children: Vec<ChildStart>,
    pub changed: bool,
    /// An incident was opened that holds the task.
    pub task_incident: bool,
    /// The engine parked the task: nothing is granted and something waits (D12).
    pub parked: bool,
    /// The caller held the live lease. Without it, answers carry state, number and child only (D37).
    pub live: bool,
    /// Commit what changed, then answer this problem instead of the steps: `STEP_LIMIT` opens an incident.
    pub refusal: Option<Rejection>,
}

/// One step as it is answered.
#[derive(Clone, Debug, PartialEq)]
pub struct StepAnswer {
    pub sequence: u32,
    pub kind: StepKind,
    pub state: StepState,
    pub child: Option<InstanceId>,
    pub tool_ref: Option<String>,
    pub policy: Option<Policy>,
    /// Effective arguments: only with a grant.
    pub arguments: Option<Value>,
    /// Only with a grant.
    pub idempotency_key: Option<String>,
    pub result: Option<PayloadRef>,
    pub settled: Option<u32>,
    /// (attempt, sequence) of the step that answered (D40).
    pub reused: Option<(u32, u32)>,
    pub queued: bool,
    /// Id of the approval that a PROPOSED step waits for.
    pub approval: Option<String>,
    pub code: Option<String>,
    pub reason: Option<String>,
    /// Why the batch form recorded the step as REFUSED just now.
    pub refusal: Option<Rejection>,
}

/// A call while it is decided; dropped without a trace when it is refused.
pub(super) struct Draft<'a> {
    pub(super) cx: &'a JournalContext<'a>,
    pub(super) caller: &'a Caller,
    pub(super) single: bool,
    pub(super) attempt: u32,
    pub(super) live: bool,
    pub(super) file: TaskFile,
    pub(super) numbers: u32,
    pub(super) out: Vec<Effect>,
    pub(super) children: Vec<ChildStart>,
    pub(super) task_incident: bool,
}

/// Records steps.
///
/// # Errors
/// D36's codes, and [`Stop::MissingPayloads`] for what a grant carries. Nothing is changed then.
pub fn record(
    cx: &JournalContext<'_>,
    file: &mut TaskFile,
    record: &Record,
    numbers: &mut u32,
    out: &mut Vec<Effect>,
) -> Result<Recorded, Stop> {
    let mut draft = Draft {
        cx,
        caller: &record.caller,
        single: record.single,
        attempt: record.attempt,
        live: check_lease(file, &record.caller).is_ok(),
        file: file.clone(),
        numbers: *numbers,
        out: Vec::new(),
        children: Vec::new(),
        task_incident: false,
    };
    call_back(&mut draft.file, draft.caller);
    let mut steps = Vec::with_capacity(record.steps.len());
    for input in &record.steps {
        match draft.step(input) {
            Ok(answer) => steps.push(answer),
            Err(Stop::Rejected(refusal)) if refusal.code == "STEP_LIMIT" => {
                let stopped = draft.stop_at_limit(*refusal);
                draft.keep(file, numbers, out);
                return Ok(stopped);
            }
            Err(stop) => return Err(stop),
        }
    }
    let parked = draft.park();
    let recorded = Recorded {
        steps,
        changed: draft.file != *file,
        children: std::mem::take(&mut draft.children),
        task_incident: draft.task_incident,
        parked,
        live: draft.live,
        refusal: None,
    };
    draft.keep(file, numbers, out);
    Ok(recorded)
}

impl Draft<'_> {
    fn step(&mut self, input: &StepInput) -> Result<StepAnswer, Stop> {
        let digest = check::request_digest(input);
        let Some(at) = self.file.position(self.attempt, input.sequence) else {
            self.may_add(input)?;
            return create::create(self, input, digest);
        };
        if is_same_request(&self.file.steps[at], input, &digest) {
            if is_replay(&self.file.steps[at], input, self.caller) {
                return self.replay(at, input);
            }
            match accept::delivery(&self.file, &self.file.steps[at], self.caller, input)? {
                Delivery::Result => {
                    accept::accept(self, at, input)?;
                    return self.answer(at);
                }
                Delivery::TooLate => {
                    accept::keep_late(self, at, input)?;
                    return self.answer(at);
                }
                Delivery::NotMine => {}
            }
        }
        Err(self.refuse_known(at, input, &digest).into())
    }

    /// The first checks of D36 for a sequence that has no step.
    fn may_add(&self, input: &StepInput) -> Result<(), Rejection> {
        check_lease(&self.file, self.caller)?;
        if self.attempt != self.file.task.attempt {
            return Err(stale(self.attempt, self.file.task.attempt));
        }
        let next = self.file.current().map(|step| step.sequence).max().unwrap_or(0) + 1;
        if input.sequence == next {
            return Ok(());
        }
        let message = format!("the next sequence is {next}, not {}", input.sequence);
        Err(Rejection::conflict("SEQUENCE", message).hint("read the journal and go on from its last step"))
    }

    /// The stored step, which under the live lease is also how a step is granted.
    fn replay(&mut self, at: usize, input: &StepInput) -> Result<StepAnswer, Stop> {
        if input.state == StepState::Started {
            self.is_no_grant_of_others(&self.file.steps[at])?;
        }
        let current = self.attempt == self.file.task.attempt;
        if let Some(lease) = self.caller.lease.as_ref().filter(|_| self.live && current)
            && input.state == StepState::Started
        {
            grant(&mut self.file, at, lease)?;
        }
        self.answer(at)
    }

    /// STARTED is how a grant is told. Whoever lost the lease must not read it of a step that another lease runs:
    /// both would run it.
    fn is_no_grant_of_others(&self, step: &Step) -> Result<(), Rejection> {
        if step.state != StepState::Started || step.standing() != Standing::Granted {
            return Ok(());
        }
        let refusal = check_lease(&self.file, self.caller).err();
        let mine = step.grant.as_ref() == self.caller.lease.as_ref();
        match refusal {
            Some(refusal) if !mine || refusal.code == "LEASE_NOT_OWNED" => Err(refusal),
            _ => Ok(()),
        }
    }

    /// Which of D36's refusals applies to a known sequence that is neither replayed nor answered.
    fn refuse_known(&self, at: usize, input: &StepInput, digest: &str) -> Rejection {
        let step = &self.file.steps[at];
        if let Err(refusal) = check_lease(&self.file, self.caller) {
            return refusal;
        }
        if self.attempt != self.file.task.attempt {
            return stale(self.attempt, self.file.task.attempt);
        }
        if let Err(refusal) = check::target(self.cx, input)
            && refusal.code == "TOOL_NOT_BOUND"
        {
            return refusal;
        }
        let verdict = match judge(Some(step.state), Mover::Worker, input.state) {
            // The move is legal, so what is missing is the grant.
            Verdict::Move if input.state != StepState::Started => Some("WRITE_AHEAD_REQUIRED"),
            Verdict::Move | Verdict::Stored => None,
            Verdict::Refused(code) => Some(code),
        };
        let same = is_same_request(step, input, digest);
        match verdict {
            Some("WRITE_AHEAD_REQUIRED") if !same && step.grant == self.caller.lease => {
                divergent(input.sequence)
            }
            Some(code @ ("APPROVAL_REQUIRED" | "WRITE_AHEAD_REQUIRED" | "STEP_INVALID")) => {
                states::refusal(code, input.sequence)
            }
            Some(code) if same => states::refusal(code, input.sequence),
            Some(_) | None => divergent(input.sequence),
        }
    }

    /// At the limit of steps somebody has to look: an incident, not a dead end (core §4). What the call told before
    /// the step that is too many stays: a known outcome is never thrown away.
    fn stop_at_limit(&mut self, refusal: Rejection) -> Recorded {
        let (now, message) = (self.cx.now, refusal.message.clone());
        // One such incident is enough, also when a call comes that waited meanwhile; those about steps stand beside it.
        let of_step = |held: &u32| self.file.steps.iter().any(|step| step.incident == Some(*held));
        if self.file.task.incidents.iter().all(of_step) {
            hold(
                &mut self.file,
                refusal.code,
                message,
                now,
                &mut self.numbers,
                &mut self.out,
            );
        }
        end_lease(&mut self.file, now);
        Recorded {
            steps: Vec::new(),
            children: std::mem::take(&mut self.children),
            changed: true,
            task_incident: true,
            parked: false,
            live: true,
            refusal: Some(refusal),
        }
    }

    /// Takes the decided call over.
    fn keep(self, file: &mut TaskFile, numbers: &mut u32, out: &mut Vec<Effect>) {
        *file = self.file;
        *numbers = self.numbers;
        out.extend(self.out);
    }

    /// The engine parks by itself when the call of the live lease leaves nothing granted and something waiting.
    fn park(&mut self) -> bool {
        if !self.live || !is_idle(&self.file) {
            return false;
        }
        end_lease(&mut self.file, self.cx.now);
        true
    }

    pub(super) fn answer(&self, at: usize) -> Result<StepAnswer, Stop> {
        let step = &*self.file.steps[at];
        let mut answer = StepAnswer {
            sequence: step.sequence,
            kind: step.kind,
            state: step.state,
            child: step.child.clone(),
            tool_ref: None,
            policy: None,
            arguments: None,
            idempotency_key: None,
            result: None,
            settled: None,
            reused: None,
            queued: false,
            approval: None,
            code: None,
            reason: None,
            refusal: None,
        };
        if !self.live {
            return Ok(answer);
        }
        answer.tool_ref = Some(step.tool_ref.clone());
        answer.policy = step.policy;
        answer.result = step.result.clone();
        answer.settled = step.settled;
        answer.reused = step.reused_from;
        answer.queued = step.queued;
        let proposed = step.state == StepState::Proposed;
        answer.approval = step
            .approval
            .filter(|_| proposed)
            .map(|local| self.cx.instance_id.human(local));
        answer.code = step.code.clone();
        answer.reason = step.reason.clone();
        if step.state == StepState::Started && step.grant.is_some() && step.grant == self.caller.lease {
            answer.arguments = granted_arguments(self.cx, step, &self.out)?;
            answer.idempotency_key = step.key.clone();
        }
        Ok(answer)
    }

    pub(super) fn push(&mut self, step: Step) -> usize {
        let behind = |other: &Arc<Step>| (other.attempt, other.sequence) < (step.attempt, step.sequence);
        let at = self.file.steps.partition_point(behind);
        self.file.steps.insert(at, Arc::new(step));
        at
    }

    /// Checks of a new MODEL step that come before its binding.
    pub(super) fn may_begin_turn(&self, input: &StepInput) -> Result<(), Rejection> {
        if input.kind == StepKind::Model {
            turn::may_begin(&self.file)
        } else {
            Ok(())
        }
    }

    pub(super) fn within_limits(&self, target: Option<Target<'_>>) -> Result<(), Rejection> {
        if matches!(target, Some(Target::Model)) {
            turn::within_limits(self.cx, &self.file)
        } else {
            Ok(())
        }
    }
}

/// A request may be left out when a result is sent.
fn is_same_request(step: &Step, input: &StepInput, digest: &str) -> bool {
    let left_out = input.request.is_null() && input.state != StepState::Started;
    step.kind == input.kind && step.tool_ref == input.tool_ref && (left_out || step.request_digest == digest)
}

/// The same step sent again: a start, or the outcome that is stored, with the same result or none (D37). What came
/// too late from another lease is no answer for the one that runs the step now, even if it says the same.
fn is_replay(step: &Step, input: &StepInput, caller: &Caller) -> bool {
    if input.state == StepState::Started {
        return true;
    }
    let Some(result) = &input.result else {
        return step.state == input.state;
    };
    let digest = legation_language::canonical::digest(result);
    let is = |stored: &Option<PayloadRef>| stored.as_ref().is_some_and(|stored| stored.digest == digest);
    let runs = step.state == StepState::Started && step.grant == caller.lease;
    (step.state == input.state && is(&step.result)) || (!runs && is(&step.late_result))
}

fn stale(sent: u32, attempt: u32) -> Rejection {
    Rejection::conflict(
        "STALE_ATTEMPT",
        format!("attempt {sent} is over, this is attempt {attempt}"),
    )
}

fn divergent(sequence: u32) -> Rejection {
    Rejection::conflict(
        "DIVERGENT_STEP",
        format!("step {sequence} was journaled with another request"),
    )
    .hint("replay the journal before going on")
}
