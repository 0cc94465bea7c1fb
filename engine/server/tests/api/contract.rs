//! The contract of the API, checked in.

use legation_server::http;

/// `specs/openapi.json` is what the code says. Write it anew with `legation openapi > specs/openapi.json`.
#[test]
fn the_checked_in_contract_is_the_one_of_the_code() {
    let document = http::openapi().to_pretty_json().expect("the contract is JSON");
    let checked_in = include_str!("../../../../specs/openapi.json");
    assert!(
        checked_in.trim_end() == document.trim_end(),
        "run: legation openapi > specs/openapi.json"
    );
}
