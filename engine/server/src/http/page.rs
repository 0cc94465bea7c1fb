//! Cursor pages: `limit` and an opaque `after`. A cursor is the place of the last row of the page before.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use legation_store::Place;

use super::error::{Error, Result};

const DEFAULT: u32 = 50;
const MOST: u32 = 200;

/// The page size asked for, 1 to 200, default 50.
///
/// # Errors
/// 422
pub fn limit(asked: Option<u32>) -> Result<i64> {
    limit_up_to(asked, DEFAULT, MOST)
}

/// # Errors
/// 422
pub fn limit_up_to(asked: Option<u32>, default: u32, most: u32) -> Result<i64> {
    let limit = asked.unwrap_or(default);
    if !(1..=most).contains(&limit) {
        return Err(Error::out_of_range("limit", format!("limit is 1 to {most}")));
    }
    Ok(i64::from(limit))
}

/// Writes a place as a cursor.
#[must_use]
pub fn cursor(place: &Place) -> String {
    URL_SAFE_NO_PAD.encode(format!("{}|{}|{}", place.at, place.root, place.id))
}

/// Reads a cursor.
///
/// # Errors
/// 400 for one that this engine did not write.
pub fn place(after: Option<&str>) -> Result<Option<Place>> {
    let Some(after) = after.filter(|after| !after.is_empty()) else {
        return Ok(None);
    };
    read(after)
        .map(Some)
        .ok_or_else(|| Error::invalid("this is no cursor of this list").argument("after"))
}

fn read(after: &str) -> Option<Place> {
    let bytes = URL_SAFE_NO_PAD.decode(after).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let mut parts = text.splitn(3, '|');
    let at = parts.next()?.parse().ok()?;
    let (root, id) = (parts.next()?.to_owned(), parts.next()?.to_owned());
    let plain = |text: &str| !text.contains('\0');
    (plain(&root) && plain(&id)).then_some(Place { at, root, id })
}
