//! A business error by code (D32): routed by `on_error`, else an incident.

use legation_language::Value;

use super::{Answer, BusinessError, failure, lease};
use crate::ids::TaskId;
use crate::rejection::Stop;
use crate::task::{self, Caller, Opened};
use crate::work::Work;

pub(super) fn run(
    work: &mut Work<'_>,
    id: &TaskId,
    caller: &Caller,
    error: &BusinessError,
) -> Result<Answer, Stop> {
    let now = work.env.now;
    let body = Value::map([
        ("code", Value::from(error.code.as_str())),
        (
            "message",
            error.message.as_deref().map_or(Value::Null, Value::from),
        ),
        ("variables", Value::Map(error.variables.clone())),
    ]);
    let file = work.task(id)?;
    if let Opened::Repeat(state) = task::open_closing(file, caller, "error", &body)? {
        return Ok(lease::repeated(file, state));
    }
    // A node's `outputs` map its result; what comes with an error keeps its own names.
    work.with(&id.instance(), |m| m.check_merge(&error.variables))?;
    lease::close(work.task_mut(id)?, caller, "error", &body, now);
    failure::give_up(work, id, &error.code, error.message.as_deref(), &error.variables)?;
    failure::finish_closing(work, id)
}
