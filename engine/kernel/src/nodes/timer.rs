//! `timer`: waits until a time. Also reads the moments of `on_timeout` and `due`.

use legation_language::duration;
use legation_language::model::{Moment, Node};

use super::NodeType;
use crate::dates;
use crate::effect::{Effect, Timer};
use crate::instance::{Event, Guard, Wait};
use crate::moves::{Moves, Trouble};

impl NodeType for Moment {
    fn enter(&self, m: &mut Moves<'_, '_>, token: u32, node: &Node) -> Result<(), Trouble> {
        let due_at = due_at(m, token, node, self)?;
        let timer = m.arm(node, due_at, None);
        m.emit(Event::TokenWaits {
            token,
            wait: Wait::Timer { timer },
        });
        Ok(())
    }
}

/// Epoch milliseconds of a moment, counted from now.
pub(super) fn due_at(m: &Moves<'_, '_>, token: u32, node: &Node, moment: &Moment) -> Result<i64, Trouble> {
    let wrong = |what: &str| Trouble::Incident {
        code: "EXPRESSION_FAILED",
        message: format!("node {}: the timer needs {what}", node.id),
    };
    match moment {
        Moment::After(ms) => Ok(m.now().saturating_add(*ms)),
        Moment::AfterExpression(expr) => {
            let value = m.evaluate(token, expr, None)?;
            let ms = value.as_str().and_then(|text| duration::parse_ms(text).ok());
            Ok(m.now()
                .saturating_add(ms.ok_or_else(|| wrong("a duration text, such as 15m or PT15M"))?))
        }
        Moment::At(expr) => {
            let value = m.evaluate(token, expr, None)?;
            let time = value.as_str().and_then(dates::parse_rfc3339);
            time.ok_or_else(|| wrong("a date-time text, such as 2026-12-01T08:00:00Z"))
        }
    }
}

impl Moves<'_, '_> {
    /// Arms a timer of a node, or one that guards a token.
    pub(super) fn arm(&mut self, node: &Node, due_at: i64, guards: Option<Guard>) -> u32 {
        let timer = self.number();
        let row = Timer {
            id: self.instance().id.timer(timer),
            instance: self.id(),
            node: node.id.clone(),
            due_at,
        };
        self.work.effects.push(Effect::ArmTimer(row));
        self.emit(Event::TimerArmed {
            timer,
            due_at,
            guards,
        });
        timer
    }
}
