//! Lists whose conditions depend on what is asked, page by page.

use crate::dialect::Arg;
use crate::keys::{Key, Place};

/// A list query whose conditions depend on what is asked. Conditions are literals; values are bound.
pub(crate) struct Filter<'a> {
    pub(crate) columns: &'static str,
    pub(crate) text: String,
    pub(crate) args: Vec<Arg<'a>>,
}

impl<'a> Filter<'a> {
    /// `text` ends in a WHERE with at least one condition, or in `WHERE TRUE`.
    pub(crate) fn new(columns: &'static str, text: &'static str, args: &[Arg<'a>]) -> Self {
        Self {
            columns,
            text: text.to_owned(),
            args: args.to_vec(),
        }
    }

    /// The rows of one instance, wherever `instance` is the column that names it. The project is compared as an
    /// expression: SQLite would rather walk the project's index by time, past everybody else's rows, than sort a few.
    pub(crate) fn of_instance(&mut self, instance: &'static str, key: &'a Key) {
        self.text = self.text.replace("t.project = $1", "t.project || '' = $1");
        self.and("t.root = ?", &key.root);
        self.and(instance, &key.id);
    }

    /// Adds ` AND <condition>`, in which `?` is the value.
    pub(crate) fn and(&mut self, condition: &'static str, value: impl Into<Arg<'a>>) {
        self.args.push(value.into());
        let condition = condition.replace('?', &format!("${}", self.args.len()));
        self.text.push_str(" AND ");
        self.text
            .push_str(&condition.replace("{texts}", &format!("{{texts:{}}}", self.args.len())));
    }

    /// Adds ` AND <condition>` if there is a value.
    pub(crate) fn and_some<T: Into<Arg<'a>>>(&mut self, condition: &'static str, value: Option<T>) {
        if let Some(value) = value {
            self.and(condition, value);
        }
    }

    /// Adds ` AND <condition>` without a value.
    pub(crate) fn and_fixed(&mut self, condition: &'static str) {
        self.text.push_str(" AND ");
        self.text.push_str(condition);
    }

    /// Newest first, after `place`, at most `limit`. `at` is the column that orders.
    pub(crate) fn page(&mut self, at: &'static str, place: Option<&'a Place>, limit: i64) {
        if let Some(place) = place {
            let first = self.args.len() + 1;
            self.args
                .extend([Arg::from(place.at), Arg::from(&place.root), Arg::from(&place.id)]);
            let (second, third) = (first + 1, first + 2);
            self.text.push_str(&format!(
                " AND (t.{at}, t.root, t.id) < (${first}, ${second}, ${third})"
            ));
        }
        self.args.push(Arg::from(limit));
        let number = self.args.len();
        self.text.push_str(&format!(
            " ORDER BY t.{at} DESC, t.root DESC, t.id DESC LIMIT ${number}"
        ));
    }
}
